"""Commands of qdqtool run in this process, and what their JSON reports say."""

import contextlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.networks.row import Left
from qdqtool.__main__ import main as qdqtool

BUILD = ("--backend", "tensorrt-rtx", "--compute-capabilities", "12.0")
"""The oldest compute capability that has kernels for every mode."""

ADVICE = "advice"
"""The effect of findings that name what would be faster, and no fault."""


class FailedError(Exception):
    """A command ended with an error; the text says which and what it said."""


def run(*words: object, allowed: Sequence[int] = (0,)) -> tuple[int, Any]:
    """Run a command with a JSON report.

    Raises:
        FailedError: It ended with another exit code.
    """
    said, wrong = io.StringIO(), io.StringIO()
    code: object = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        try:
            qdqtool([*map(str, words), "--output-format", "json"])
        except SystemExit as ended:
            code = ended.code
    report = json.loads(said.getvalue()) if said.getvalue().startswith("{") else {}
    if code not in allowed:
        message = report.get("error", {}).get("message") or wrong.getvalue().strip().splitlines()[-1:] or ""
        raise FailedError(f"{words[0]}: exit code {code}: {message}"[:300])
    return int(str(code or 0)), report


def build(path: Path, engine: Path, data: Path) -> tuple[Any, str]:
    """Return the report of a build, or why there is no engine."""
    code, report = run("build", path, "-o", engine, "--calib-data", data, *BUILD, allowed=range(6))
    if code == 0:
        return report, ""
    return None, str(report.get("message") or report.get("error", {}).get("message") or f"exit code {code}")


def kernels(report: Any) -> tuple[int, int, list[Left]]:
    """Return how many nodes a build planned, how many of them run so, and why the others do not."""
    planned, achieved = (sum(report[key].values()) for key in ("planned", "achieved"))
    differ = [each for each in report["nodes"] if each["actual"] != each["planned"]]
    return planned, achieved, counted((each["op_type"], each["reason"] or "") for each in differ)


def findings(path: Path) -> list[Any]:
    """Return what ``validate`` finds for TensorRT for RTX."""
    _, report = run("validate", path, "--target", "tensorrt-rtx", allowed=(0, 1))
    return [each for model in report["models"] for target in model["targets"] for each in target["findings"]]


def faults(found: Iterable[Any]) -> list[str]:
    """Return findings that are no advice, as ``2 QP101``."""
    codes = Counter(each["code"] for each in found if each["effect"] != ADVICE)
    return [f"{count} {code}" for code, count in sorted(codes.items())]


def counted(pairs: Iterable[tuple[str, str]]) -> list[Left]:
    """Return operators with their reasons, the most frequent first."""
    return [Left(op_type, reason, count) for (op_type, reason), count in Counter(pairs).most_common()]
