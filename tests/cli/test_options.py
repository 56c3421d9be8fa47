"""The options that several commands share."""

from pathlib import Path

import click
import onnx
import pytest
from click.testing import CliRunner, Result
from support.command import qdqtool

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
