"""Time and peak memory of a command that runs in a process of its own."""

import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

_NAMES_AN_ERROR = re.compile(r"(internal )?\w*[Ee]rror\b")
LAUNCHER = Path(__file__).parent / "children" / "launch.py"


@dataclass(frozen=True, slots=True)
class Cost:
    """What runs of one command took, each figure the smallest of them.

    Attributes:
        wall: Seconds from start to exit.
        cpu: Seconds of processor time, user and system, of the process and those it waited for.
        peak: Bytes of resident memory at most.
        runs: How many runs there were.
    """

    wall: float
    cpu: float
    peak: int
    runs: int = 1

    def best(self, other: "Cost | None") -> "Cost":
        """The smaller figure of both, one by one."""
        if other is None:
            return self
        return Cost(
            min(self.wall, other.wall), min(self.cpu, other.cpu), min(self.peak, other.peak), self.runs + other.runs
        )


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


def run(words: list[str]) -> Ended:
    """Run a command in a fresh process, in an empty working folder, with nothing on its standard input."""
    with tempfile.TemporaryDirectory() as folder:
        result, log = Path(folder) / "cost.json", Path(folder) / "log"
        launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(result), *words]
        with log.open("wb") as stream:
            subprocess.run(launcher, cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, check=False)
        said = log.read_text(encoding="utf-8", errors="replace")[-4000:]
        if not result.exists():
            return Ended(127, Cost(0, 0, 0), said)
        measured = json.loads(result.read_text(encoding="utf-8"))
    return Ended(measured["code"], Cost(measured["wall"], measured["cpu"], measured["peak"]), said)
