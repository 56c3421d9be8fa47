"""An environment for each tool, which takes torch from the environment that has it."""

import os
import subprocess
from pathlib import Path

from benchmarks.foreign_models.tools import Tool

READY = ".ready"


def python_of(tool: Tool, folder: Path, torch: str) -> str:
    """Return the interpreter of a tool's environment, which is made where it is missing.

    Args:
        tool: The tool.
        folder: Where environments are.
        torch: The interpreter that has torch; the environment is of the same Python.

    Raises:
        subprocess.CalledProcessError: pip cannot install the tool; ``stderr`` says why.
    """
    environment = folder / tool.name
    python = environment / "bin" / "python"
    if not (environment / READY).exists():
        _run(torch, "-m", "venv", "--clear", str(environment))
        (_packages(str(python)) / "torch.pth").write_text(str(_packages(torch)), encoding="utf-8")
        _run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *tool.requirements)
        (environment / READY).touch()
    return str(python)


def _packages(python: str) -> Path:
    """Return where an interpreter has its packages."""
    return Path(_run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())


def _run(*words: str) -> str:
    # The Makefile's constraints hold for the project, and not for other tools.
    environment = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    return subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
