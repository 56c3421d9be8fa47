"""The shell around the commands: instant start, help everywhere, exit codes, no traceback, nothing unescaped."""

import ast
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import onnx
import pytest
from support.command import qdqtool, qdqtool_process
from support.small import conv_model

from qdqtool import __main__ as entry
from qdqtool.cli import command
from qdqtool.errors import CapabilityError

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


def test_every_command_has_help_without_loading_anything_heavy() -> None:
    code = (
        "import sys, contextlib\nfrom qdqtool.__main__ import main\n"
        f"for command in {COMMANDS!r}:\n    with contextlib.suppress(SystemExit):\n        main([command, '--help'])\n"
        f"    print('LOADED', command, [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = [line for line in done.stdout.splitlines() if line.startswith("LOADED")]
    assert loaded == [f"LOADED {name} []" for name in COMMANDS]
    assert all(f"Usage: qdqtool {name}" in done.stdout for name in COMMANDS)


def test_the_commands_of_the_contract_are_there() -> None:
    assert {"inspect", "insert", "strip", "validate", "check", "build", "rules", "explain", "doctor"} <= set(COMMANDS)


def test_the_list_of_commands_tells_what_each_does() -> None:
    done = qdqtool_process("--help")
    for name in COMMANDS:
        line = next(line for line in done.out.splitlines() if line.strip().startswith(f"{name} "))
        assert len(line.split()) > 3


def test_an_unknown_command_gets_a_suggestion() -> None:
    done = qdqtool_process("instpect", "m.onnx")
    assert done.code == 2
    assert "No such command 'instpect'; did you mean 'inspect'?" in done.err


def test_underscores_and_equals_signs_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(conv_model().SerializeToString())
    done = qdqtool_process("inspect", tmp_path / "m.onnx", "--output_format=json")
    assert done.code == 0
    assert json.loads(done.out)["schema_version"] == 1


def test_errors_of_users_are_one_line_with_a_hint_and_a_code(tmp_path: Path) -> None:
    done = qdqtool_process("inspect", tmp_path)
    assert (done.code, done.out) == (3, "")
    assert done.err.splitlines() == [f"error: {tmp_path} is a folder", "hint: name the .onnx file in it"]


def test_a_bug_of_ours_is_exit_5_and_can_show_where(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops\x1b[31m")

    monkeypatch.setattr(entry.command, "invoke", broken)
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
    assert "\x1b" not in qdqtool_process("inspect", tmp_path / "m.onnx").out


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
        done = qdqtool_process(arguments[0], path, *arguments[1:])
        for stream in (done.out, done.err):
            assert not {"\x1b", "\u202e", "\x9b"} & set(stream), arguments
    assert "evil\\x1b[2J\\n[bold]x" in qdqtool_process("inspect", path, "--tensors").out


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "ascii:surrogateescape"])
def test_an_encoding_without_a_character_spells_it(tmp_path: Path, encoding: str) -> None:
    name = "模型 \N{GRINNING FACE}"
    model = conv_model()
    model.graph.node[0].output[0] = model.graph.node[1].input[0] = name
    onnx.save(model, tmp_path / "m.onnx")
    words = ("inspect", tmp_path / "m.onnx", "--tensors")
    told = qdqtool_process(*words, PYTHONIOENCODING=encoding)
    data = qdqtool_process(*words, "--output-format", "json", PYTHONIOENCODING=encoding)

    assert (told.code, data.code) == (0, 0), told.err
    assert r"\u6a21\u578b \ud83d\ude00" in told.out
    assert name in json.dumps(json.loads(data.out), ensure_ascii=False)


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


@pytest.mark.parametrize("error", ["ImportError", "QdqError", "click.Abort"])
def test_ctrl_c_that_a_library_takes_for_an_error_is_ctrl_c(error: str) -> None:
    code = (
        "import click, os, signal\nfrom qdqtool import __main__ as entry\nfrom qdqtool.errors import QdqError\n"
        "def work(words):\n    try:\n        os.kill(os.getpid(), signal.SIGINT)\n"
        f"    except KeyboardInterrupt:\n        raise {error}('no library')\n"
        "entry._invoke = work\nentry.main([])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.split()) == (130, ["interrupted;", "nothing", "was", "left", "behind"])


@pytest.mark.parametrize(("limit", "threads"), [("-1", "None"), ("8 << 30", "1")])
def test_with_little_memory_openblas_starts_no_threads(limit: str, threads: str) -> None:
    code = (
        f"import os, resource\nresource.setrlimit(resource.RLIMIT_AS, ({limit}, -1))\n"
        "from qdqtool import __main__ as entry\n"
        "entry.main = lambda: print(os.environ.get('OPENBLAS_NUM_THREADS'))\nentry.console()"
    )
    plain = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=plain)
    assert (done.returncode, done.stdout.strip()) == (0, threads)


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell; ``qdqtool`` in it is this one."""
    # Not within a path: the folder of the project has the same name.
    command = re.sub(r"(?<!/)\bqdqtool ", f"'{sys.executable}' -m qdqtool ", line)
    words = ["/bin/bash", "-c", f"set -o pipefail; {command}"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, timeout=100)


@pytest.mark.parametrize("line", ["rules", "rules --output-format json", "inspect m.onnx --tensors", "--help"])
def test_a_full_stdout_is_an_output_that_cannot_be_written(tmp_path: Path, line: str) -> None:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    done = shell(f"qdqtool {line} > /dev/full", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: stdout cannot be written: No space left on device; the report is incomplete\n"


def test_a_closed_pipe_is_no_finding(tmp_path: Path) -> None:
    model = conv_model()
    names = [f"{number}{'long' * 50}" for number in range(1000)]
    model.graph.initializer.extend(onnx.helper.make_tensor(name, 1, [1], [1.0]) for name in names)
    onnx.save(model, tmp_path / "m.onnx")
    for output_format in ("text", "json"):
        done = shell(f"qdqtool inspect m.onnx --tensors --output-format {output_format} | head -c 1", tmp_path)
        assert (done.returncode, len(done.stdout), done.stderr) == (141, 1, "")
    done = shell("qdqtool strip m.onnx -o - 2>/dev/null | head -c 1", tmp_path)
    assert done.returncode == 141


@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
def test_closed_streams_are_no_error(tmp_path: Path, closed: str) -> None:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    done = shell(f"qdqtool strip m.onnx -o s.onnx {closed}", tmp_path)
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load(tmp_path / "s.onnx"))


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell what is open")
@pytest.mark.parametrize("closed", ["0<&-", ">&-", "2>&-", "0<&- >&- 2>&-"])
def test_no_file_takes_the_number_of_a_closed_stream(tmp_path: Path, closed: str) -> None:
    # What is printed would be written into that file.
    code = (
        "import os, sys\nfrom qdqtool import __main__ as entry\n"
        "def main():\n"
        "    streams = [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]\n"
        "    open('seen', 'w').write(repr([(each, os.readlink(f'/proc/self/fd/{each}')) for each in streams]))\n"
        "entry.main = main\nentry.console()"
    )
    (tmp_path / "main.py").write_text(code)
    shell(f"'{sys.executable}' main.py {closed}", tmp_path)
    seen = dict(ast.literal_eval((tmp_path / "seen").read_text()))
    assert list(seen) == [0, 1, 2]
    numbers = {"0<&-": [0], ">&-": [1], "2>&-": [2]}.get(closed, [0, 1, 2])
    assert [seen[number] for number in numbers] == ["/dev/null"] * len(numbers)


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("inspect absent.onnx", 3, "absent.onnx: no such file"),
        ("validate m.onnx --target nonsense", 2, "target 'nonsense' is unknown; legal: onnx, ort-cpu"),
        ("validate m.onnx --no-such-option", 2, "No such option '--no-such-option'"),
        ("quantize m.onnx -o q.onnx", 2, "no calibration data is given"),
        ("nonsense", 2, "No such command 'nonsense'"),
        ("check m.onnx --data absent.npz", 2, "data absent.npz: no such file or folder"),
        ("build absent.onnx -o e.engine", 3, "absent.onnx: no such file"),
        ("diff m.onnx absent.onnx", 3, "absent.onnx: no such file"),
    ],
)
def test_json_is_never_empty(tmp_path: Path, line: str, code: int, message: str) -> None:
    onnx.save(conv_model(), tmp_path / "m.onnx")
    done = qdqtool(*line.split(), "--output-format", "json", cwd=tmp_path)
    assert done.code == code
    found = json.loads(done.out)
    assert found["schema_version"] == 1
    assert found["error"]["exit_code"] == code
    assert found["error"]["message"].startswith(message)
    assert found["error"]["message"].splitlines()[0] in done.err


SYSTEM = {
    "full disk": (
        OSError(errno.ENOSPC, "No space left", "/tmp/qdqtool-1"),
        4,
        "error: No space left for /tmp/qdqtool-1",
    ),
    "open files": (
        OSError(errno.EMFILE, "Too many open files"),
        4,
        "error: Too many open files; nothing was left behind",
    ),
    "size of a file": (OSError(errno.EFBIG, "File too large"), 4, "error: File too large; nothing was left behind"),
    "memory": (MemoryError("3.6 TiB"), 4, "error: there is not enough memory\n"),
    "memory, of the system": (
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        4,
        "error: there is not enough memory\n",
    ),
    "memory, at an import": (ImportError("x.so: failed to map segment from shared object"), 4, "error: there is not"),
    "path": (
        OSError(errno.ENAMETOOLONG, "File name too long", "d" * 5000),
        2,
        f"error: the path {'d' * 40}… is too long",
    ),
    "bug, file": (OSError(errno.ENOENT, "No such file or directory", "x"), 5, "internal error: FileNotFoundError"),
    "bug, import": (ImportError("cannot import name 'x'"), 5, "internal error: ImportError: cannot import name 'x'"),
}
"""Faults of the machine, which may occur anywhere, with exit code and message; and bugs that look alike."""


@pytest.mark.parametrize("name", SYSTEM)
def test_a_fault_of_the_machine_is_no_bug(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    error, code, message = SYSTEM[name]

    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(entry.command, "invoke", fails)
    with pytest.raises(SystemExit) as caught:
        entry.main(["inspect"])
    assert caught.value.code == code
    assert message in capsys.readouterr().err


def test_a_library_that_does_not_fit_into_memory_is_not_absent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise CapabilityError("onnxruntime is not installed") from cause

    monkeypatch.setattr(entry.command, "invoke", fails)
    for text, message in (("No module named x", "is not installed"), ("failed to map segment", "not enough memory")):
        cause = ImportError(text)
        with pytest.raises(SystemExit) as caught:
            entry.main(["inspect"])
        assert caught.value.code == 4
        assert message in capsys.readouterr().err


def test_a_message_is_printed_where_nothing_more_can_be_loaded(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(entry.command, "invoke", fails)
    monkeypatch.setattr("qdqtool.reports.failure.tell", fails)
    with pytest.raises(SystemExit) as caught:
        entry.main(["inspect"])
    assert caught.value.code == 4
    assert capfd.readouterr().err == "error: there is not enough memory\n"


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("mkdir gone; cd gone; rmdir ../gone; qdqtool validate m.onnx", 2, "error: the current folder was removed"),
        (f"qdqtool verify-engine {'/'.join(['d' * 99] * 42)}", 2, f"error: the path {'d' * 40}… is too long"),
        ("ulimit -v 150000; qdqtool rules", 4, "error: "),
    ],
)
def test_what_the_system_refuses_is_one_line(tmp_path: Path, line: str, code: int, message: str) -> None:
    done = shell(line, tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
