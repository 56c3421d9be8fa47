"""The options that several commands share."""

import json
import os
import pty
import re
import stat
import subprocess
import sys
from pathlib import Path

import click
import onnx
import pytest
from click.testing import CliRunner, Result
from support.command import qdqtool
from support.small import conv_model

from qdqtool.cli import command as all_commands
from qdqtool.cli.options import emit, output_format_option, verbosity_options
from qdqtool.jobs.merge import MergeReport
from qdqtool.linting import rules

REPORT = MergeReport(output="r.json", tensors=1, method="max", samples=2, shards=("a", "b"), unseen=0)
PRINT_ALWAYS = {"doctor", "explain", "inspect", "rules", "schema"}
"""Commands whose only purpose is to print."""


@click.command()
@click.option("--fails", is_flag=True)
@output_format_option()
@verbosity_options
def tried(*, fails: bool, output_format: str) -> None:
    emit(REPORT, output_format, "merge", passed=not fails)


def run(*words: str) -> Result:
    return CliRunner().invoke(tried, words)


def test_quiet_prints_failures_and_json_alone():
    report = run().output
    assert report
    assert run("-q").output == run("--quiet").output == ""
    assert run("-q", "--fails").output == report
    assert run("-q", "--output-format", "json").output == run("--output-format", "json").output != ""


def test_verbose_reaches_the_console(monkeypatch: pytest.MonkeyPatch):
    seen: list[bool] = []
    monkeypatch.setattr(
        "qdqtool.reports.text.ranges.render_merged", lambda _report, console: seen.append(console.verbose)
    )
    for words in ((), ("-v",), ("--verbose",)):
        run(*words)
    assert seen == [False, True, True]


def test_quiet_and_verbose_exclude_each_other():
    done = run("-q", "-v")
    assert done.exit_code == 2
    assert "--quiet and --verbose exclude each other" in done.output


@pytest.mark.parametrize("name", all_commands.list_commands(click.Context(all_commands)))
def test_every_command_that_does_something_takes_both(name: str):
    found = all_commands.get_command(click.Context(all_commands), name)
    assert found is not None
    flags = {flag for parameter in found.params for flag in parameter.opts}
    assert ({"-q", "--quiet", "-v", "--verbose"} <= flags) is (name not in PRINT_ALWAYS)


def test_a_quiet_gate_says_nothing_or_everything(tmp_path: Path):
    good, bad = tmp_path / "good.onnx", tmp_path / "bad.onnx"
    onnx.save(rules.get("QP102").VALID[0].model(), good)
    onnx.save(rules.get("QP101").INVALID[0].model(), bad)
    assert qdqtool("validate", "-q", good).out == ""
    assert "QP101 [refused]" in qdqtool("validate", "-q", bad).out


def test_the_hint_of_an_error_names_the_model_of_the_command(tmp_path: Path):
    model = tmp_path / "a model.onnx"
    onnx.save(rules.get("QP102").VALID[0].model(), model)
    (tmp_path / "plan.toml").write_text(
        'schema_version = 1\n[[tensors]]\ntensor = "nowhere"\nformat = "int8"\nscale = 1.0\n', encoding="utf-8"
    )
    done = qdqtool("insert", model, "--plan", tmp_path / "plan.toml", "-o", tmp_path / "q.onnx")
    assert f"`qdqtool inspect --tensors '{model}'` lists the tensors" in done.err


PLAN = 'schema_version=1\n[[tensors]]\ntensor="w"\nformat="int8"\nscale=0.1\n'


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "p.toml").write_text(PLAN)
    path = tmp_path / "m.onnx"
    onnx.save(conv_model(), path)
    return path


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[bytes]:
    """Run a line; ``qdqtool`` in it is this one."""
    # Not within a path: the folder of the project has the same name.
    command = re.sub(r"(?<!/)\bqdqtool ", f"'{sys.executable}' -m qdqtool ", line)
    return subprocess.run(["/bin/sh", "-c", command], cwd=folder, capture_output=True, check=False, timeout=100)


@pytest.mark.parametrize("output", ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_an_output_may_be_stdout_and_the_report_goes_to_stderr(model: Path, output: str):
    done = shell(f"qdqtool insert m.onnx --plan p.toml -o {output}", model.parent)
    assert done.returncode == 0
    onnx.checker.check_model(onnx.load_from_string(done.stdout))
    assert b"wrote" in done.stderr
    assert sorted(path.name for path in model.parent.iterdir()) == ["m.onnx", "p.toml"]


def test_models_go_through_a_pipeline(model: Path):
    line = "qdqtool insert m.onnx --plan p.toml -o - | qdqtool strip /dev/stdin -o - > s.onnx"
    done = shell(line, model.parent)
    assert done.returncode == 0
    onnx.checker.check_model(onnx.load(model.parent / "s.onnx"))


def test_what_a_script_prints_does_not_get_into_the_output(model: Path):
    (model.parent / "d.py").write_text(
        "import numpy as np, os\n"
        "def load_data():\n"
        "    print('chatter')\n"
        "    os.write(1, b'native chatter')\n"
        "    rng = np.random.default_rng(0)\n"
        "    for _ in range(4):\n"
        "        yield {'x': rng.normal(size=(1, 3, 8, 8)).astype('float32')}\n"
    )
    done = shell("qdqtool quantize m.onnx --calib-data d.py -o - --output-format json", model.parent)
    assert done.returncode == 0, done.stderr
    assert b"chatter" not in done.stdout
    assert b"native chatter" in done.stderr
    onnx.checker.check_model(onnx.load_from_string(done.stdout))


def test_a_terminal_is_not_shown_a_model(model: Path):
    leader, follower = pty.openpty()
    words = [sys.executable, "-m", "qdqtool", "insert", str(model), "--plan", str(model.parent / "p.toml"), "-o", "-"]
    done = subprocess.run(words, stdout=follower, stderr=subprocess.PIPE, check=False, timeout=100)
    os.close(follower)
    os.close(leader)
    assert done.returncode == 2
    assert b"stdout is a terminal" in done.stderr


def test_a_full_device_stays_a_device(model: Path):
    for line in (
        "qdqtool strip m.onnx -o /dev/full",
        "qdqtool validate m.onnx --report json=/dev/full",
        "qdqtool validate m.onnx --write-baseline /dev/full",
        "qdqtool check m.onnx --save-outputs /dev/full",
        "qdqtool calibrate m.onnx --random-calibration -o /dev/full",
    ):
        done = qdqtool(*line.split()[1:], cwd=model.parent)
        assert done.code == 2, line
        assert "no space left on the device" in done.err
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_every_writer_takes_the_null_device(model: Path):
    for line in (
        "qdqtool strip m.onnx -o /dev/null",
        "qdqtool normalize m.onnx -o /dev/null",
        "qdqtool validate m.onnx --report sarif=/dev/null --write-baseline /dev/null",
        "qdqtool check m.onnx --save-outputs /dev/null",
        "qdqtool calibrate m.onnx --random-calibration -o /dev/null",
        "qdqtool quantize m.onnx --random-calibration -o /dev/null",
    ):
        done = qdqtool(*line.split()[1:], cwd=model.parent)
        assert done.code == 0, (line, done.err)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_ranges_go_once_and_complete_to_stdout(model: Path):
    done = shell("qdqtool calibrate m.onnx --random-calibration --samples 40 -o -", model.parent)
    assert json.loads(done.stdout)


@pytest.mark.parametrize("output", ["/dev/stdout", "-"])
def test_a_report_may_go_to_stdout(model: Path, output: str):
    done = shell(f"qdqtool validate m.onnx --report json={output}", model.parent)
    assert json.loads(done.stdout)["schema_version"] == 1
    assert b"m.onnx" in done.stderr


def test_a_report_goes_through_a_link(model: Path):
    link = model.parent / "latest.json"
    link.symlink_to("real.json")
    assert qdqtool("validate", model, "--report", f"json={link}").code == 0
    assert link.is_symlink()
    assert json.loads((model.parent / "real.json").read_text())["schema_version"] == 1


def test_a_fix_in_place_goes_through_a_link(tmp_path: Path):
    model = conv_model()
    nodes = [*model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    real = tmp_path / "real.onnx"
    onnx.save(model, real)
    before = real.read_bytes()
    link = tmp_path / "m.onnx"
    link.symlink_to("real.onnx")
    qdqtool("validate", link, "--target", "onnx", "--fix", "--in-place")
    assert link.is_symlink()
    assert real.read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "real.onnx"]
