"""Results as text and Markdown."""

import math
import os
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata

from benchmarks.comparison.bars import Bar
from benchmarks.comparison.contestants import (
    DEFAULT,
    DEFAULT_METHOD,
    HISTOGRAM,
    MAX,
    MODEL_OPTIMIZER,
    NO_DATA,
    ORT,
    OURS,
)
from benchmarks.comparison.measured import FLOAT, Result

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
TOOLS = (OURS, ORT, MODEL_OPTIMIZER)
SUMMARY_COLUMNS = ("model", *TOOLS)
HALF_COLUMNS = ("model", "tool", "data", "SQNR dB", "nodes in half", "work in half", "Casts", "builds", "seconds")
BAR_COLUMNS = ("model", "bar", "reached", "limit", "verdict")
PACKAGES = ("qdqtool", "numpy", "onnx", "onnxruntime", "onnxruntime-gpu", "tensorrt-rtx", "numba")
NOTHING = "-"


def rows(results: Iterable[Result]) -> list[list[str]]:
    """One row for each result, under :data:`COLUMNS`."""
    return [_row(result) for result in results]


def half_rows(results: Iterable[Result]) -> list[list[str]]:
    """One row for each conversion to half precision, under :data:`HALF_COLUMNS`."""
    return [_half_row(result) for result in results]


def _half_row(result: Result) -> list[str]:
    half, data = result.half, "none" if result.method == NO_DATA else f"{result.samples} samples"
    names = [result.model, result.tool, data]
    if half is None:
        return [*names, "failed", *[NOTHING] * (len(HALF_COLUMNS) - 4)]
    return [
        *names,
        _sqnr(result),
        f"{half.half} of {half.nodes}",
        f"{half.work:.1f} %" if half.work is not None else NOTHING,
        str(half.casts),
        _engine(result)[0],
        _number(result.cost.wall if result.cost else None, 1),
    ]


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


def versions() -> str:
    """Of Python and of the packages that take part, as far as they are installed, and the number of processors."""
    found = [f"python {platform.python_version()}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return f"{', '.join(found)}; {os.cpu_count()} processors"


def summary(results: Sequence[Result]) -> list[list[str]]:
    """One row for each model, under :data:`SUMMARY_COLUMNS`: the best that each tool does with int8."""
    models = dict.fromkeys(one.model for one in results)
    return [
        [model, *(_best([one for one in results if (one.model, one.tool) == (model, tool)]) for tool in TOOLS)]
        for model in models
    ]


def _best(results: Sequence[Result]) -> str:
    ranked = sorted(
        (one.quality.worst, index) for index, one in enumerate(results) if one.quality and stands_for_its_tool(one)
    )
    if not ranked:
        return NOTHING
    sqnr, index = ranked[-1]
    quality = results[index].quality
    task = _number(quality.task if quality else None, 3)
    parts = [f"{_number(sqnr, 1)} dB", _counts(results[index])[0], task]
    return ", ".join(part for part in parts if part != NOTHING)


def stands_for_its_tool(result: Result) -> bool:
    """Whether a result stands for its tool: ours as it is without options, of a peer any method of int8."""
    if result.tool == OURS:
        return (result.group, result.method) == (DEFAULT, DEFAULT_METHOD)
    return result.group in (MAX, HISTOGRAM)


def _row(result: Result) -> list[str]:
    names = [result.model, result.tool, result.group or NOTHING, result.method or NOTHING]
    if result.failed:
        return [*names, "SKIPPED", *[NOTHING] * (len(COLUMNS) - 5)]
    return [
        *names,
        str(result.samples),
        *(_number(result.ratio(figure), 2) for figure in ("wall", "cpu", "peak")),
        _number(result.cost.wall if result.cost else None, 2),
        _sqnr(result),
        _number(result.quality.task if result.quality else None, 3),
        *_counts(result),
        _number(result.size / 1e6 if result.size else None, 2),
        *_engine(result),
    ]


def _sqnr(result: Result) -> str:
    """That of the worst output, with its name if there are others."""
    if result.quality is None or result.tool == FLOAT:
        return NOTHING
    name, value = min(result.quality.sqnr.items(), key=lambda item: item[1])
    return _number(value, 2) + (f" ({name})" if len(result.quality.sqnr) > 1 else "")


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
