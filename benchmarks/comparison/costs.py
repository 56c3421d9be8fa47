"""Time and peak memory of a command that runs in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

_NAMES_AN_ERROR = re.compile(r"(internal )?\w*[Ee]rror\b")
LIMIT = 900
"""Seconds that a command may take."""
TOO_LONG = 124
"""Exit code of what took longer, as ``timeout`` has it."""
LAUNCHER = Path(__file__).parent / "children" / "launch.py"


@dataclass(frozen=True, slots=True)
class Cost:
    """What runs of one command took, each figure the smallest of them.

    Attributes:
        wall: Seconds from start to exit.
        cpu: Seconds of processor time, user and system, of the process and those it waited for.
        peak: Bytes of resident memory at most.
        runs: How many runs there were.
        repeated: The figures of every run, by name, in the order of the runs; empty: only the smallest are known.
    """

    wall: float
    cpu: float
    peak: int
    runs: int = 1
    repeated: dict[str, list[float]] = field(default_factory=dict, hash=False)

    def best(self, other: "Cost | None") -> "Cost":
        """The smaller figure of both, one by one."""
        if other is None:
            return self
        smallest = min(self.wall, other.wall), min(self.cpu, other.cpu), min(self.peak, other.peak)
        known = self.repeated and other.repeated
        repeated = {name: [*runs, *self.repeated[name]] for name, runs in other.repeated.items()} if known else {}
        return Cost(*smallest, self.runs + other.runs, repeated)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended.

    Attributes:
        code: Exit code; a negative number is the signal that ended it.
        cost: What it took.
        said: Its standard error and output, the last 4,000 characters.
    """

    code: int
    cost: Cost
    said: str

    @property
    def complaint(self) -> str:
        """The line that tells what went wrong, as far as a line does."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        named = [line for line in lines if _NAMES_AN_ERROR.match(line)]
        return (named or lines or [f"exit code {self.code}, no message"])[-1][:200]


def run(words: list[str], limit: float = LIMIT) -> Ended:
    """Run a command in a fresh process, in an empty working folder, with nothing on its standard input.

    Args:
        words: The command.
        limit: Seconds after which it is ended.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "cost.json", Path(folder) / "log"
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(result), *words]
        with log.open("wb") as stream:
            in_time = _finishes(launcher, folder, stream, limit)
        said = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        if not in_time:
            return Ended(TOO_LONG, Cost(limit, limit, 0), f"error: not done after {limit:.0f} s")
        if not result.exists():
            return Ended(127, Cost(0, 0, 0), said)
        measured = json.loads(result.read_text(encoding="utf-8"))
    figures = {name: measured[name] for name in ("wall", "cpu", "peak")}
    return Ended(measured["code"], Cost(**figures, repeated={name: [figure] for name, figure in figures.items()}), said)


def _finishes(words: list[str], folder: str, stream: BinaryIO, limit: float) -> bool:
    """Whether a process ends in time; else it is ended with all that it started."""
    process = subprocess.Popen(
        words, cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, start_new_session=True
    )
    try:
        process.wait(limit)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return False
    return True
