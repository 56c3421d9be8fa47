"""The gate on activations: the scale of every Q must fit the values that the Q reads."""

from collections.abc import Iterator

import numpy as np

from qdqtool.accuracy.checking.pair_error import PairError
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.scope import display

NAME = "activations"

RANDOM_LEAST_DB = 1.0
"""Random inputs may lie outside the ranges of real data. With them, a pair fails only below this SQNR in dB, where its
error is as large as the values. Between this limit and the limit of the format, the pair gets a warning."""

FITS = 2.0
"""The range of the codes fits a bound that is known without data if they differ by at most this factor."""

LEAST_HELD, LEAST_HELD_OF_MANY = 0.25, 1 / 64
"""Smallest share of the bound of an operator that the codes reach. The values of a Softmax may all be small. The rule
QN504 has the same limits."""

MAX_NODES = 16
"""Largest number of nodes that a search for a known bound visits."""


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge every Q of a tensor that is not constant; active if such a Q ran."""
    index = evidence.job.index
    errors = evidence.job.pair_errors.values()
    judged = [each for each in errors if (each.elements or each.nans) and not is_constant(index, each)]
    if not judged:
        return
    narrow = {each.entry: line for each in judged if (line := _too_narrow(index, each))}
    low = [each for each in judged if each.entry not in narrow and misses(each) and not _is_near_zero(index, each)]
    destroyed = [each for each in low if not evidence.is_random or not above(each, RANDOM_LEAST_DB)]
    # A Q to integers turns NaN into a code, so that no later tensor shows the NaN.
    hidden = [_nan_line(each) for each in judged if each.nans and each.fmt.kind == "integer"]
    suspect = [_line(each) for each in low if each not in destroyed] + (hidden if evidence.is_random else [])
    failures = [*narrow.values(), *map(_line, destroyed), *(hidden if not evidence.is_random else [])]
    yield GateResult.of(
        name=NAME,
        requires="every scale fits its values: at least 6 dB SQNR, 3 dB for 4-bit codes"
        + (f"; {RANDOM_LEAST_DB:g} dB on random inputs" if evidence.is_random else ""),
        failures=failures,
        detail=_worst(judged) if not failures else f"{len(failures)} of {len(judged)} pairs do not fit",
        warnings=(f"{line}; the inputs were random" for line in suspect),
    )


def misses(error: PairError) -> bool:
    """Return whether a pair is below the limit of its format, or the scale of a weight far from the best."""
    return bool(error.excess) or not above(error, error.least_db)


def above(error: PairError, limit: float) -> bool:
    """Return whether a pair reaches a limit in dB: true without error or signal, false for NaN."""
    return error.lowest_db is None or error.lowest_db >= limit


def is_constant(index: ModelIndex, error: PairError) -> bool:
    """Return whether a Q reads a constant."""
    return error.entry.data is not None and index.is_constant(error.entry.data)


def _is_near_zero(index: ModelIndex, error: PairError) -> bool:
    """Return whether the codes cover the bound of the operator without clipping; then values near 0 are no fault."""
    bound = bound_of(index, error.entry.data)
    return bound is not None and not error.clipped and bound / FITS <= _top(error) <= bound * FITS


def _top(error: PairError) -> float:
    """Return the largest magnitude of the codes; with a zero point, the width of their range."""
    return float(np.max(error.scale)) * (error.fmt.high if error.is_symmetric else error.fmt.high - error.fmt.low)


def _worst(judged: list[PairError]) -> str:
    count = plural(len(judged), "pair")
    known = [(ratio, _tensor(each)) for each in judged if (ratio := each.lowest_db) is not None]
    if not known:
        return f"{count}, all exact"
    ratio, tensor = min(known)
    return f"{count}, worst {ratio:.1f} dB at '{tensor}'"


def _tensor(error: PairError) -> str:
    return error.entry.data.name if error.entry.data is not None else ""


def _line(error: PairError) -> str:
    return f"{_place(error)}: {error.describe()}"


def _nan_line(error: PairError) -> str:
    share = error.nans / (error.elements + error.nans)
    return f"{_place(error)}: {share:.1%} of the values are NaN, and become codes like any other"


def _place(error: PairError) -> str:
    node = error.entry.node
    scope = f" in {display(node.scope.path)}" if node.scope.path else ""
    return f"QuantizeLinear '{node.label}'{scope} on '{_tensor(error)}'"


def bound_of(index: ModelIndex, value: Value | None) -> float | None:
    """Return the largest magnitude that a tensor can have, found through pairs and operators that only move values.

    For a Sigmoid or Softmax this is 1. On some data all values may be near 0, such as the scores of a detector where
    there is nothing to find. Then a pair rounds every value to 0, and its error is as large as the signal although
    nothing is wrong.

    Returns:
        The bound of the operator that makes the values, or None if it has no known bound.
    """
    found = _bounded(index, value)
    return found[1] if found is not None else None


def _bounded(index: ModelIndex, value: Value | None) -> tuple[NodeView, float] | None:
    for _ in range(MAX_NODES):
        node = value.producer if value is not None else None
        if node is None:
            return None
        known = ops.traits(node)
        if known.bound is not None:
            return node, known.bound
        if index.qdq.get(node) is None and not (known.moves_values or known.passes_values):
            return None
        value = node.input(0)
    return None


def _too_narrow(index: ModelIndex, error: PairError) -> str:
    """Return that a range clips most values that an operator can make, on any data; empty if it does not."""
    found, top = _bounded(index, error.entry.data), _top(error)
    if found is None:
        return ""
    node, bound = found
    if top >= bound * (LEAST_HELD_OF_MANY if ops.traits(node).softmax else LEAST_HELD):
        return ""
    return f"{_place(error)}: its codes end at {top:.3g}, and {node.op_type} '{node.label}' reaches {bound:g}"
