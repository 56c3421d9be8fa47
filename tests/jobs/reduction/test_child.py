import os
import sys
import time
from pathlib import Path

import pytest

from qdqtool.errors import CapabilityError
from qdqtool.jobs.reduction.child import run_child, run_own


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def test_exit_code_and_both_streams_are_kept(tmp_path: Path):
    ended = run_child(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"), tmp_path, 30)
    assert (ended.code, ended.out, ended.err) == (7, "out\n", "err\n")


def test_a_signal_is_a_negative_code(tmp_path: Path):
    assert run_child(python("import os; os.kill(os.getpid(), 11)"), tmp_path, 30).code == -11


def test_a_command_is_stopped_with_what_it_started(tmp_path: Path):
    code = (
        "import subprocess, sys, time; nap = 'import time; time.sleep(99)'; "
        "child = subprocess.Popen([sys.executable, '-S', '-c', nap]); print(child.pid, flush=True); time.sleep(99)"
    )
    begun = time.monotonic()
    ended = run_child(python(code), tmp_path, 1.5)
    assert ended.code is None
    assert time.monotonic() - begun < 15
    grandchild = int(ended.out)
    for _ in range(100):
        if not is_running(grandchild):
            break
        time.sleep(0.05)
    assert not is_running(grandchild)


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_long_output_neither_stops_the_command_nor_fills_the_memory(tmp_path: Path):
    ended = run_child(python("print('x' * 30_000_000); print('last')"), tmp_path, 60)
    assert ended.code == 0
    assert len(ended.out) == 1 << 24
    assert ended.out.endswith("last\n")


def test_a_command_reads_nothing_from_the_terminal(tmp_path: Path):
    assert run_child(python("import sys; print(len(sys.stdin.read()))"), tmp_path, 30).out == "0\n"


def test_a_program_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(CapabilityError, match="'no-such-program' cannot be started: No such file"):
        run_child(["no-such-program"], tmp_path, 30)


def test_our_own_commands_run_from_this_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qdqtool.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    ended = run_own(["--version"], tmp_path, 60)
    assert (ended.code, ended.out.split()[0]) == (0, "qdqtool")
    assert "PYTHONPATH" not in os.environ
