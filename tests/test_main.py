"""The shell around the commands: instant start, help everywhere, exit codes, no traceback, nothing unescaped."""

import json
import subprocess
import sys
from pathlib import Path

import click
import onnx
import pytest
from support.command import qdqtool
from support.small import conv_model

from qdqtool import __main__ as entry
from qdqtool.cli import command

HEAVY = ("onnx", "onnxruntime", "numba", "tensorrt", "tensorrt_rtx", "onnx_graphsurgeon", "numpy", "rich", "msgspec")
COMMANDS = command.list_commands(click.Context(command))


@pytest.mark.parametrize(
    "code",
    [
        "import qdqtool",
        (
            "import qdqtool, contextlib\nwith contextlib.suppress(SystemExit):\n"
            "    from qdqtool.__main__ import main\n    main(['--help'])"
        ),
    ],
)
def test_import_and_help_load_nothing_heavy(code: str) -> None:
    probe = f"{code}\nimport sys\nprint('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert "LOADED []" in done.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_without_loading_anything_heavy(name: str) -> None:
    code = (
        "import sys, contextlib\nfrom qdqtool.__main__ import main\n"
        f"with contextlib.suppress(SystemExit):\n    main([{name!r}, '--help'])\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Usage: qdqtool" in done.stdout
    assert "LOADED []" in done.stdout


def test_the_commands_of_the_contract_are_there() -> None:
    assert {"inspect", "insert", "strip", "validate", "check", "build", "rules", "explain", "doctor"} <= set(COMMANDS)


def test_the_list_of_commands_tells_what_each_does() -> None:
    done = qdqtool("--help")
    for name in COMMANDS:
        line = next(line for line in done.out.splitlines() if line.strip().startswith(f"{name} "))
        assert len(line.split()) > 3


def test_an_unknown_command_gets_a_suggestion() -> None:
    done = qdqtool("instpect", "m.onnx")
    assert done.code == 2
    assert "No such command 'instpect'; did you mean 'inspect'?" in done.err


def test_underscores_and_equals_signs_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    done = qdqtool("inspect", tmp_path / "m.onnx", "--output_format=json")
    assert done.code == 0
    assert json.loads(done.out)["schema_version"] == 1


def test_errors_of_users_are_one_line_with_a_hint_and_a_code(tmp_path: Path) -> None:
    done = qdqtool("inspect", tmp_path)
    assert (done.code, done.out) == (3, "")
    assert done.err.splitlines() == [f"error: {tmp_path} is a folder", "hint: name the .onnx file in it"]


def test_a_bug_of_ours_is_exit_5_and_can_show_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops\x1b[31m")

    monkeypatch.setattr(entry.command, "main", broken)
    with pytest.raises(SystemExit) as caught:
        entry.main(["inspect"])
    assert caught.value.code == 5
    assert "internal error: ZeroDivisionError: oops\\x1b[31m" in capsys.readouterr().err
    monkeypatch.setenv("QDQTOOL_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        entry.main(["inspect"])


def test_a_closed_pipe_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    shell = f"'{sys.executable}' -m qdqtool inspect --tensors '{tmp_path}/m.onnx' | head -1"
    done = subprocess.run(["/bin/sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(tmp_path / "m.onnx")
    assert done.stderr == ""


def test_colours_only_on_request_of_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    assert "\x1b" not in qdqtool("inspect", tmp_path / "m.onnx").out


HOSTILE = "evil\x1b[2J\n[bold]x[/bold][/model/conv]\u202e\x9b31m"


def test_hostile_names_are_escaped_everywhere(tmp_path: Path) -> None:
    model = conv_model()
    for node in model.graph.node:
        node.name += HOSTILE
        for names in (node.input, node.output):
            for index, name in enumerate(names):
                names[index] = name if name in {"x", "y"} else name + HOSTILE
    for tensor in model.graph.initializer:
        tensor.name += HOSTILE
    model.producer_name = HOSTILE
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    for arguments in (("inspect", "--tensors"), ("validate",), ("validate", "--target", "onnx,ort-cpu")):
        done = qdqtool(arguments[0], path, *arguments[1:])
        for stream in (done.out, done.err):
            assert not {"\x1b", "\u202e", "\x9b"} & set(stream), arguments
    assert "evil\\x1b[2J\\n[bold]x" in qdqtool("inspect", path, "--tensors").out


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
def test_ctrl_c_ends_with_130_and_leaves_nothing(tmp_path: Path, signal: str) -> None:
    model = conv_model()
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    (tmp_path / "p.toml").write_text('schema_version=1\n[[tensors]]\ntensor="w"\nformat="int8"\nscale=0.1\n')
    code = (
        "import os, signal\nfrom qdqtool.__main__ import main\n"
        f"os.fsync = lambda handle: os.kill(os.getpid(), signal.{signal})\n"
        f"main(['insert', {str(path)!r}, '--plan', {str(tmp_path / 'p.toml')!r}, '-o', {str(tmp_path / 'q.onnx')!r}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert done.stderr.split("\n") == ["", "interrupted; nothing was left behind", ""]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "p.toml"]
