"""Running the command line: as a user does, in a process of its own, or in this one, which is quicker."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from qdqtool.__main__ import main
from support.printed_json import check_stdout


@dataclass(frozen=True, slots=True)
class Done:
    """What one command printed and how it ended."""

    code: int
    out: str
    err: str


def qdqtool(*arguments: str | Path, cwd: Path | None = None, **environment: str) -> Done:
    """Run these words in this process; fails where a user would see a traceback."""
    words = [str(word) for word in arguments]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name, value in environment.items():
            patch.setenv(name, value)
        code = exit_code_of(words, cwd or Path())
    return _done(words, code, *(bytes(stream.buffer.getvalue()) for stream in (out, err)))


def qdqtool_process(*arguments: str | Path, cwd: Path | None = None, timeout: float = 300, **environment: str) -> Done:
    """Do the same in a process of its own: for signals, memory, and what a process has loaded."""
    words = [str(word) for word in arguments]
    done = subprocess.run(
        [sys.executable, "-m", "qdqtool", *words],
        cwd=cwd,
        capture_output=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    return _done(words, done.returncode, done.stdout, done.stderr)


def _done(words: list[str], code: int, raw_out: bytes, raw_err: bytes) -> Done:
    out, err = raw_out.decode(), raw_err.decode()
    assert "Traceback" not in out + err, err
    assert "internal error" not in err, err
    check_stdout(words, out)
    return Done(code, out, err)


def exit_code_of(words: Sequence[str], folder: Path) -> int:
    """Run the command line in a folder, in this process; return the exit code."""
    before = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        try:
            main(list(words))
        except SystemExit as end:
            return int(end.code or 0)
        finally:
            signal.signal(signal.SIGTERM, before)
    raise AssertionError("main returns by SystemExit only")
