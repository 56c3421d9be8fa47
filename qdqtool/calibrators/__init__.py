"""From what a tensor was seen to hold to the range that its codes should cover: one method a module.

The file name is the public id (``--calibration-method``), ``CALIBRATOR`` the value.
"""

import functools

from qdqtool import calibrators as _package
from qdqtool.calibrators._density import clipped_fraction
from qdqtool.calibrators._types import Calibrator, Goal, Threshold
from qdqtool.errors import ArgumentError
from qdqtool.registry import load_unit, suggestion, unit_names

__all__ = ["DEFAULT", "Calibrator", "Goal", "Threshold", "clipped_fraction", "get", "names"]

DEFAULT = "max"


def names() -> tuple[str, ...]:
    """The public ids of all methods, sorted."""
    return unit_names(_package)


@functools.cache
def get(name: str) -> Calibrator:
    """The method of that public id.

    Raises:
        ArgumentError: There is none; the message lists the legal names.
    """
    if name not in names():
        raise ArgumentError(
            f"calibration method '{name}' is unknown; legal: {', '.join(names())}{suggestion(name, names())}"
        )
    found: Calibrator = load_unit(_package, name).CALIBRATOR
    return found
