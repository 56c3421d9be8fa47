"""The gate on pairs: a DQ must undo the Q before it, with the same scale, zero point and axis."""

from collections.abc import Iterator

import numpy as np

from qdqtool.accuracy.checking.qdq_reference import NodeCheck
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqPair
from qdqtool.models.graph.index.view import Value
from qdqtool.numerics.dtypes import FLOAT64, Array


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge every pair; active where the model has pairs."""
    job = evidence.job
    pairs = job.index.qdq.pairs
    if not pairs:
        return
    faults = [(pair, fault) for pair in pairs if (fault := _pair_fault(job.index, pair, job.checks[pair.dequantize]))]
    yield GateResult.of(
        name="pairs",
        requires="every DQ undoes the Q before it: same scale, zero point and axis",
        failures=(
            f"DequantizeLinear '{pair.dequantize.node.label}' does not undo '{pair.quantize.node.label}': {fault}"
            for pair, fault in faults
        ),
        detail=f"{len(faults)} of {len(pairs)} pairs differ" if faults else plural(len(pairs), "pair"),
    )


def _pair_fault(index: ModelIndex, pair: QdqPair, check: NodeCheck) -> str:
    """Return why a DQ does not undo its Q (unequal constants, else unequal results); empty if it does."""
    for name in ("scale", "zero_point"):
        left, right = (_constant(index, getattr(entry, name)) for entry in (pair.quantize, pair.dequantize))
        if name == "zero_point":
            left, right = _zero_if_absent(left, pair, right), _zero_if_absent(right, pair, left)
        if left is not None and right is not None and not _same(left, right):
            return f"its {name} is {_shown(right)}, that of the Q is {_shown(left)}"
    if check.pair_different:
        return f"{check.pair_different} elements differ; {check.pair_example}"
    return ""


def _constant(index: ModelIndex, value: Value | None) -> Array | None:
    return index.constant(value) if value is not None else None


def _zero_if_absent(zero: Array | None, pair: QdqPair, other: Array | None) -> Array | None:
    absent = pair.quantize.zero_point is None or pair.dequantize.zero_point is None
    return np.zeros_like(other, FLOAT64) if absent and other is not None else zero


def _same(left: Array, right: Array) -> bool:
    return np.array_equal(left.astype(FLOAT64).reshape(-1), right.astype(FLOAT64).reshape(-1), equal_nan=True)


def _shown(array: Array) -> str:
    values = array.astype(FLOAT64).reshape(-1)
    return f"{values[0]:.9g}" if values.size == 1 else f"{values[0]:.9g}, … ({values.size} values)"
