"""Calibration methods, one in each module: turn the statistics of a tensor into the range that its codes cover.

The file name is the public id (``--calibration-method``), ``CALIBRATOR`` is the value.
"""

import functools

from qdqtool.errors import ArgumentError
from qdqtool.quantization.ranges import calibrators as _package
from qdqtool.quantization.ranges.calibrators._density import clipped_fraction
from qdqtool.quantization.ranges.calibrators._types import PERCENTILE, Calibrator, RangeGoal, Threshold
from qdqtool.registry import load_unit, suggestion, unit_names

__all__ = [
    "DEFAULT",
    "PERCENTILE",
    "Calibrator",
    "RangeGoal",
    "Threshold",
    "check_percentile",
    "clipped_fraction",
    "get",
    "names",
]

DEFAULT = "auto"


def names() -> tuple[str, ...]:
    """Return the public ids of all methods, sorted."""
    return unit_names(_package)


@functools.cache
def get(name: str) -> Calibrator:
    """Return the method with that public id.

    Raises:
        ArgumentError: No method has that id; the message lists the legal names.
    """
    if name not in names():
        raise ArgumentError(
            f"calibration method '{name}' is unknown; legal: {', '.join(names())}{suggestion(name, names())}"
        )
    found: Calibrator = load_unit(_package, name).CALIBRATOR
    return found


def check_percentile(method: str, percentile: float | None) -> None:
    """Check that a percentile is legal for a method.

    Raises:
        ArgumentError: The percentile is not from 50 to 100, or the method does not use one.
    """
    if percentile is None:
        return
    if method != "percentile":
        raise ArgumentError(
            f"percentile is set, but calibration method '{method}' does not use it; only percentile does"
        )
    if not 50 <= percentile <= 100:
        hint = f"did you mean `--percentile {100 * percentile:g}`?" if 0.5 <= percentile <= 1 else None
        raise ArgumentError(f"percentile is {percentile:g}; legal: 50 to 100", hint=hint)
