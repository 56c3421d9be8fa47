"""The gates of a check, one in each module with a function ``results``, in the order of the report."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.gates import (
    accuracy,
    activations,
    distances,
    finite,
    float_form,
    metric,
    pairs,
    qdq_exact,
    repeatable,
    saved_outputs,
    weights,
)
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult

GATES = (
    repeatable,
    qdq_exact,
    finite,
    pairs,
    activations,
    weights,
    float_form,
    accuracy,
    distances,
    saved_outputs,
    metric,
)


def gate_results(evidence: Evidence) -> Iterator[GateResult]:
    """Yield the result of every gate that is active in a check."""
    for gate in GATES:
        yield from gate.results(evidence)
