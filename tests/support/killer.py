"""A worker that a model kills, as a crash in native code would."""

import os
import signal
from pathlib import Path

from qdqtool.linting.policy import Linter, Policy
from qdqtool.linting.report import ModelReport


def judge_or_die(path: Path, policy: Policy) -> ModelReport:
    """Judge a model; one called ``0.onnx`` kills the process."""
    if path.name == "0.onnx":
        os.kill(os.getpid(), signal.SIGKILL)
    return Linter(policy).file(path)
