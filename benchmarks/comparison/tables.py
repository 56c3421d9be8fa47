"""Results as text, Markdown and JSON."""

import dataclasses
import math
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata
from typing import Any

from benchmarks.comparison.bars import Bar
from benchmarks.comparison.measured import Result

COLUMNS = (
    "model",
    "tool",
    "mode",
    "method",
    "samples",
    "wall ratio",
    "CPU ratio",
    "memory ratio",
    "seconds",
    "SQNR dB",
    "task",
    "nodes",
    "pairs",
    "MB",
    "builds",
    "as planned",
)
BAR_COLUMNS = ("model", "bar", "reached", "limit", "verdict")
PACKAGES = ("qdqtool", "numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "tensorrt-rtx", "numba")
NOTHING = "-"


def rows(results: Iterable[Result]) -> list[list[str]]:
    """One row for each result, under :data:`COLUMNS`."""
    return [_row(result) for result in results]


def bar_rows(bars: Iterable[Bar]) -> list[list[str]]:
    """One row for each bar, under :data:`BAR_COLUMNS`."""
    return [
        [
            bar.subject,
            bar.what,
            f"{bar.figure:.2f}",
            f"{'≥' if bar.at_least else '≤'} {bar.limit:.2f} {bar.unit}".strip(),
            "met" if bar.met else f"missed by {-bar.margin:.2f} {bar.unit}".strip(),
        ]
        for bar in bars
    ]


def text(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Aligned columns."""
    widths = [max(len(line[index]) for line in [columns, *lines]) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in [columns, *lines]
    )


def markdown(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    ruled = [columns, ["---"] * len(columns), *lines]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in ruled)


def document(results: Iterable[Result], bars: Iterable[Bar]) -> dict[str, Any]:
    """Everything, for JSON; infinite figures become null."""
    return {
        "versions": versions(),
        "results": [_finite(_entry(result)) for result in results],
        "bars": [_finite({**dataclasses.asdict(bar), "met": bar.met, "margin": bar.margin}) for bar in bars],
    }


def versions() -> dict[str, str]:
    """Of Python and of the packages that take part, as far as they are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _row(result: Result) -> list[str]:
    contestant = result.contestant
    names = [contestant.tool, contestant.group, contestant.method] if contestant else ["float", NOTHING, NOTHING]
    if result.failed:
        return [result.subject.name, *names, "SKIPPED", *[NOTHING] * (len(COLUMNS) - 5)]
    return [
        result.subject.name,
        *names,
        str(result.samples),
        *(_number(result.ratio(figure), 2) for figure in ("wall", "cpu", "peak")),
        _number(result.cost.wall if result.cost else None, 2),
        _number(result.quality.worst if result.quality else None, 2) if contestant else NOTHING,
        _number(result.quality.task if result.quality else None, 3),
        *_counts(result),
        _number(result.size / 1e6 if result.size else None, 2),
        *_engine(result),
    ]


def _counts(result: Result) -> list[str]:
    counted = result.coverage
    if counted is None:
        return [NOTHING, NOTHING]
    weights = f" + {counted.weight_only} weights" if counted.weight_only else ""
    return [f"{counted.full}{weights} of {counted.weighted}", str(counted.pairs)]


def _engine(result: Result) -> list[str]:
    if result.engine is None:
        return [NOTHING, NOTHING]
    if not result.engine.built:
        return ["no", NOTHING]
    return ["yes", f"{result.engine.achieved} of {result.engine.planned}" if result.engine.planned else NOTHING]


def _number(value: float | None, digits: int) -> str:
    if value is None:
        return NOTHING
    return f"{value:.{digits}f}" if math.isfinite(value) else "exact" if value > 0 else "not finite"


def _entry(result: Result) -> dict[str, Any]:
    contestant = result.contestant
    return {
        "model": result.subject.name,
        "data": "real" if result.subject.metric else "random, seeded",
        "tool": contestant.tool if contestant else "float",
        "mode": contestant.group if contestant else None,
        "method": contestant.method if contestant else None,
        "samples": result.samples,
        "cost": _fields(result.cost),
        "plain": _fields(result.baseline),
        "ratios": {figure: result.ratio(figure) for figure in ("wall", "cpu", "peak")},
        "quality": _fields(result.quality),
        "coverage": _fields(result.coverage),
        "bytes": result.size,
        "engine": _fields(result.engine),
        "skipped": result.failed or None,
        "notes": result.notes,
    }


def _fields(value: Any) -> dict[str, Any] | None:
    return None if value is None else dataclasses.asdict(value)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
