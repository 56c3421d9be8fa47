"""Signals end a command wherever it is, also in a library that does not return, and nothing is left behind."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from qdqtool.numerics.cores import machine_memory

HEAD = """
import ctypes, os, signal, sys, time
from pathlib import Path
from qdqtool import __main__ as entry
from qdqtool.models.scratch import ScratchFolder, scratch_file

def stuck():
    # A wait in C that holds the interpreter's lock and that no signal interrupts: no handler of this process runs.
    mutex, library = ctypes.create_string_buffer(256), ctypes.PyDLL(None)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)

def work(_words):
    folder = ScratchFolder()
    with scratch_file(Path({out!r}), "out.onnx") as aside:
        aside.write_bytes(b"half")
        Path({out!r}, "folder").write_text(str(folder.path))
        Path({out!r}, "pid").write_text(str(os.getpid()))
        {body}
    return 7

entry._run = work
"""
STUCK, WAITING, READY = "stuck()", "time.sleep(60)", "pass"


def start(out: Path, body: str, entry: str = "entry.console()", **options: object) -> subprocess.Popen[str]:
    code = HEAD.format(out=str(out), body=body) + entry
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    deadline = time.monotonic() + 30
    while body != READY and not (out / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    return process


def left(out: Path) -> list[str]:
    """What is left in the output's folder, and whether the temporary folder is."""
    folder = Path((out / "folder").read_text())
    return sorted({path.name for path in out.iterdir()} - {"folder", "pid"}) + (
        [folder.name] if folder.exists() else []
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_exit_code_is_that_of_the_work(tmp_path: Path):
    process = start(tmp_path, READY)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (7, "", "")
    assert left(tmp_path) == []


@pytest.mark.parametrize("body", [WAITING, STUCK])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_within_seconds(tmp_path: Path, body: str, number: signal.Signals):
    process = start(tmp_path, body)
    begun = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 6
    assert process.returncode == 130
    assert err.strip() == "interrupted; nothing was left behind"
    assert left(tmp_path) == []
    assert not alive(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("body", [WAITING, STUCK])
def test_ctrl_c_reaches_both_processes(tmp_path: Path, body: str):
    process = start(tmp_path, body, start_new_session=True)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.strip()) == (130, "interrupted; nothing was left behind")
    assert left(tmp_path) == []


def test_a_second_signal_does_not_wait(tmp_path: Path):
    process = start(tmp_path, STUCK)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert time.monotonic() - begun < 2
    assert process.returncode == 130
    assert left(tmp_path) == []


def test_cleaning_up_is_not_interrupted(tmp_path: Path):
    body = "exec('try:\\n time.sleep(60)\\nfinally:\\n time.sleep(1)\\n print(\"cleaned\", flush=True)')"
    process = start(tmp_path, body, start_new_session=True)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "cleaned\n")


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", 3, "a library crashed with SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 4, "the process was killed"),
        # As OpenBLAS does where it gets no memory; 1 would mean findings.
        ("os._exit(1)", 4, "a library ended the process"),
    ],
)
def test_what_a_crash_leaves_is_removed(tmp_path: Path, end: str, code: int, message: str):
    process = start(tmp_path, end)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert message in err
    assert left(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="memory of another process")
@pytest.mark.parametrize(
    "body",
    [
        "x = bytearray(b'1') * (1 << 29)",
        "subprocess.run([sys.executable, '-c', 'x = bytearray(b\\'1\\') * (1 << 29); import time; time.sleep(5)'])",
    ],
)
def test_a_process_that_takes_all_memory_is_ended_before_the_system_is(tmp_path: Path, body: str):
    bound = 400e6 / (machine_memory() * 3 / 4)
    env = {**os.environ, "QDQTOOL_BOUNDS": str(bound)}
    process = start(tmp_path, f"import subprocess; {body}; time.sleep(60)", env=env, stdin=subprocess.PIPE)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 4
    assert re.match(r"error: the process was ended when it took \d{3} MB of memory; nothing was left behind\n", err), (
        err
    )
    assert "multiplied by the environment variable QDQTOOL_BOUNDS" in err
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("end", "code", "message"),
    [
        (
            "write_output(folder.path / 'r.onnx', b'1'); os.kill(os.getpid(), signal.SIGKILL)",
            4,
            "error: the process was killed; complete before: q.onnx\n",
        ),
        ("raise KeyboardInterrupt", 130, "interrupted; complete before: q.onnx\n"),
    ],
)
def test_outputs_that_are_complete_are_named(tmp_path: Path, end: str, code: int, message: str):
    """An output in a scratch folder, where `convert` makes them first, is not: it goes with the folder."""
    body = f"write_output(Path({str(tmp_path)!r}, 'q.onnx'), b'1'); {end}"
    process = start(tmp_path, f"from qdqtool.models.graph.io.output import write_output; {body}")
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert message in err
    assert left(tmp_path) == ["q.onnx"]


def test_the_work_ends_with_its_supervisor(tmp_path: Path):
    process = start(tmp_path, WAITING)
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while alive(int((tmp_path / "pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert left(tmp_path) == []


def test_a_crash_under_a_limit_of_memory_is_the_machine(tmp_path: Path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 40, resource.RLIM_INFINITY))

    process = start(tmp_path, "os.abort()", preexec_fn=limit)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 4
    assert "a library crashed with SIGABRT; nothing was left behind\nhint: this happens if memory is short" in err


@pytest.mark.slow(reason="waits for the grace of the supervisor")
def test_the_work_ends_with_its_supervisor_where_sigterm_is_ignored(tmp_path: Path):
    process = start(tmp_path, WAITING, preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
    process.kill()
    process.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while alive(int((tmp_path / "pid").read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(int((tmp_path / "pid").read_text()))
    assert left(tmp_path) == []


def test_sigterm_ends_what_sigint_does_not_reach(tmp_path: Path):
    def ignore() -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    process = start(tmp_path, WAITING, preexec_fn=ignore)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert left(tmp_path) == []


def test_signals_that_the_shell_has_ignored_stay_so(tmp_path: Path):
    process = start(tmp_path, "time.sleep(2)", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=30)
    assert process.returncode == 7


def test_without_fork_or_with_threads_the_work_is_done_in_place(tmp_path: Path):
    thread = "import threading; e = threading.Event(); threading.Thread(target=e.wait, daemon=True).start()"
    for entry in ("del os.fork; entry.console()", f"{thread}; entry.console()"):
        process = start(tmp_path, READY, entry)
        process.communicate(timeout=30)
        assert process.returncode == 7
        assert int((tmp_path / "pid").read_text()) == process.pid


ENDLESS_LOOP = """
<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (float[4] y) <int64 n = {4611686018427387904}, bool c = {1}> {
  y = Loop (n, c, x) <body = b (int64 i, bool ci, float[4] a) => (bool co, float[4] o) {
    co = Identity (ci)
    o = Add (a, x)
  }>
}
"""
ENDLESS_INFERENCE = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2,2] x) => (float[n] y) { y = Einsum <equation = "...i...->i"> (x) }
"""
AS_ONNX_DOES = "from qdqtool.models.graph.index import inference; inference.is_endless = lambda node: False; "


@pytest.mark.slow(reason="libraries that spin until they are killed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("text", "words", "before"),
    [(ENDLESS_LOOP, ["check", "m.onnx"], ""), (ENDLESS_INFERENCE, ["strip", "m.onnx", "-o", "s.onnx"], AS_ONNX_DOES)],
    ids=["a Loop in ONNX Runtime", "shape inference of onnx"],
)
def test_libraries_that_do_not_return(tmp_path: Path, text: str, words: list[str], before: str, number: int):
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    code = f"import sys; sys.argv[1:] = {words!r}; {before}from qdqtool.__main__ import console; console()"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=4)
    begun = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - begun < 8
    assert (process.returncode, err.strip()) == (130, "interrupted; nothing was left behind")
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
