"""Run a command in a child process with a time limit, and return its output."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from qdqtool.engines.tensorrt.process import PACKAGE_ROOT
from qdqtool.errors import CapabilityError

_MOST_BYTES = 1 << 24
"""Largest number of bytes that are read of an output. Only the end of a longer output is read: the error is there."""

_GRACE = 5.0
"""Seconds that a command has to remove its temporary files before it is killed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a command: its exit code and its output.

    Attributes:
        code: The exit code, negative for a signal; None if the command exceeded the time limit.
        out: The text that it printed on stdout.
        err: The text that it printed on stderr.
    """

    code: int | None
    out: str
    err: str


def run_own(words: Sequence[str], folder: Path, seconds: float) -> Ended:
    """Run ``qdqtool`` with these arguments, in this interpreter and from this package; else like :func:`run_child`."""
    paths = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    # -P removes the current folder, which may contain any file, from the module path.
    return run_child([sys.executable, "-P", "-m", "qdqtool", *words], folder, seconds, environment)


def run_child(
    words: Sequence[str], folder: Path, seconds: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Run a command with an empty stdin.

    Args:
        words: The command.
        folder: The folder for files with its output.
        seconds: Time limit.
        environment: The environment variables of the command; None for those of this process.

    Raises:
        CapabilityError: The command cannot be started.
    """
    # These are files, because a pipe that nobody reads would block the child.
    with (folder / "stdout").open("w+b") as out, (folder / "stderr").open("w+b") as err:
        try:
            child = subprocess.Popen(  # noqa: S603  the user's own command
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=environment,
                # The child does not get the Ctrl-C of the terminal: this process handles it and then ends the child.
                start_new_session=True,
            )
        except OSError as error:
            raise CapabilityError(f"the command {words[0]!r} cannot be started: {error.strerror}") from None
        try:
            code: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(child)
        return Ended(code, _text(out), _text(err))


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a child that still runs, with all processes that it started."""
    if child.poll() is not None:
        return
    _signal(child, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE)
    # Processes that the child started may still run.
    _signal(child, getattr(signal, "SIGKILL", signal.SIGTERM))
    child.wait()


def _signal(child: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(child.pid, number)
        else:
            child.terminate()


def _text(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _MOST_BYTES, 0))
    return file.read().decode("utf-8", "replace")
