"""Whether TensorRT for RTX parses and builds a model, and in which types its nodes then run."""

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison.subjects import Subject

COMPUTE_CAPABILITY = "12.0"
"""The oldest that has kernels for all modes that are compared, fp4 among them."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What the builder made of a model.

    Attributes:
        built: Whether there is an engine.
        planned: Nodes between Q/DQ, by the type they are meant to run in.
        achieved: How many of them do.
        reason: Why there is no engine; empty: there is.
    """

    built: bool
    planned: int = 0
    achieved: int = 0
    reason: str = ""


def build(model: Path, subject: Subject) -> Engine:
    """Parse and build without validating first, so that the builder alone decides."""
    shapes = ["--input-shapes", subject.input_shapes] if subject.input_shapes else ["--calib-data", str(subject.test)]
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "qdqtool", "build", str(model), "-o", f"{folder}/engine", "--skip-validate"]
        words += ["--backend", "tensorrt-rtx", "--compute-capabilities", COMPUTE_CAPABILITY, *shapes]
        ended = subprocess.run([*words, "--output-format", "json"], capture_output=True, text=True, check=False)
    report = json.loads(ended.stdout) if ended.stdout.startswith("{") else {}
    if not report.get("engine"):
        return Engine(False, reason=_reason(report, ended.stderr))
    return Engine(True, sum(report["planned"].values()), sum(report["achieved"].values()))


def _reason(report: dict[str, object], said: str) -> str:
    failure = str(report.get("failure") or report.get("error") or "")
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return (failure or (lines or ["no message"])[0])[:200]
