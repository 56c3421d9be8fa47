"""Runs the modules of a benchmark in processes of their own, which may crash."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_module(python: str, module: str, *words: str) -> None:
    """Run a module in another environment, in a folder of its own: some tools leave files where they run.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    command = [str(Path(python).absolute()), "-m", module, *words]
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(command, cwd=scratch, env=_environment(), check=True)


def result_of(module: str, *words: str, limit: float) -> tuple[str, str]:
    """Return what a module writes to the file named last, and its last words where it writes nothing.

    Args:
        module: Its name.
        words: Its arguments, but for the file.
        limit: Seconds that it may take.
    """
    with tempfile.TemporaryDirectory() as scratch:
        result, log = Path(scratch) / "row.json", Path(scratch) / "log"
        command = [sys.executable, "-m", module, *words, str(result)]
        with log.open("wb") as stream:
            try:
                subprocess.run(
                    command, cwd=ROOT, env=_environment(), stdout=stream, stderr=stream, timeout=limit, check=False
                )
            except subprocess.TimeoutExpired:
                return "", f"not done after {limit} s"
        if result.exists():
            return result.read_text(encoding="utf-8"), ""
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return "", (lines or ["it ended without a word"])[-1]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
