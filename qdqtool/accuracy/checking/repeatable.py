"""Test whether a model gives the same outputs in a second run of the same sample."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from qdqtool.accuracy.checking.outputs import OutputCheck
from qdqtool.errors import GateError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.ops.support.random_nodes import random_cause
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.observer import Observer, Run
from qdqtool.numerics.dtypes import Array

SAME_DB = 60.0
"""Lowest SQNR at which two runs agree. Threads that add floats in another order change results far less."""

Runs = tuple[Observer, Run, Run]
"""A session and two runs of it on the same sample."""


def differ(first: Array, second: Array) -> bool:
    """Return whether an output differs between two runs: in shape, in value, or for floats by an SQNR below 60 dB."""
    if first.shape != second.shape:
        return True
    # NumPy cannot compare strings with equal_nan, nor compute with float types that it lacks (kind "V").
    if first.dtype.kind not in "fV":
        return not np.array_equal(first, second)
    left, right = first.astype(np.float64), second.astype(np.float64)
    if np.array_equal(left, right, equal_nan=True):
        return False
    found = AccumulatedError.of(left, right).sqnr_db
    return found is None or not found >= SAME_DB


def differing_names(first: Mapping[str, Array], second: Mapping[str, Array]) -> list[str]:
    """Return the names of the outputs that differ between two runs."""
    return [name for name, array in first.items() if name in second and differ(array, second[name])]


def require_repeatable(
    index: ModelIndex, observer: Observer, sample: Mapping[str, Array], first: Mapping[str, Array]
) -> None:
    """Run a float model on a sample once more, and compare its outputs with those of the first run.

    Raises:
        GateError: An output differs.
    """
    run, values = observer.run(sample), index.view.main.values
    again = {name: array for name in first if (array := observer.output(run, values[name])) is not None}
    for name in differing_names(first, again):
        raise GateError(
            f"the float model gives another output '{name}' in a second run of the same sample: {random_cause(index)}"
        )


def unrepeated(outputs: Iterable[OutputCheck], model: Runs, baseline: Runs | None) -> Iterator[tuple[str, str]]:
    """Yield ``the model`` or ``the baseline`` with the name of each output that differs between two runs."""
    for output in outputs:
        for which, runs, value in (("the baseline", baseline, output.baseline), ("the model", model, output.value)):
            if runs is None or value is None:
                continue
            observer, first, second = runs
            before, after = observer.output(first, value), observer.output(second, value)
            if before is not None and after is not None and differ(before, after):
                yield which, value.name
