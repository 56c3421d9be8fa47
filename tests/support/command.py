"""Running the command line as a user does: in a process of its own, with everything it prints."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

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
