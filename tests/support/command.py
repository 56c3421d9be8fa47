"""Running the command line: as a user does, in a process of its own, or in this one, which is quicker."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
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


def qdqtool(*arguments: str | Path, cwd: Path | None = None, timeout: float = 300, **environment: str) -> Done:
    """Run ``qdqtool`` with these words; fails when a traceback reaches the user."""
    done = subprocess.run(
        [sys.executable, "-m", "qdqtool", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **environment},
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    assert "Traceback" not in out + err, err
    check_stdout([str(word) for word in arguments], out)
    return Done(done.returncode, out, err)


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
