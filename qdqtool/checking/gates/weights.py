"""The gate on packed weights: their codes must be the nearest to the weights of the baseline."""

from collections.abc import Iterator

from qdqtool.checking.boundaries import Boundary
from qdqtool.checking.evidence import Evidence
from qdqtool.checking.report import GateResult

FEW_BITS = 4
"""Largest number of bits of formats for which quantizers often choose codes by the error of products (GPTQ)."""


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge packed weights; active with a baseline and a limit."""
    job = evidence.job
    limit = job.gates.max_weight_steps
    packed = [boundary for boundary in job.boundaries if boundary.is_packed]
    if job.baseline is None or limit is None or not packed:
        return
    bad = [boundary for boundary in packed if boundary.is_unexplained]
    by_data = sum(boundary.is_judged_by_data for boundary in packed)
    requires = f"every packed weight that was not clipped is within {limit:g} steps of the baseline's"
    found = f"{len(bad)} of {len(packed)} are not" if bad else f"{len(packed)} weights"
    yield GateResult.of(
        name="weights",
        requires=f"{requires}, or as far off as when data chose its codes" if by_data else requires,
        failures=(_failure(boundary, limit) for boundary in bad),
        detail=f"{found}; data chose the codes of {by_data}" if by_data else found,
    )


def _failure(boundary: Boundary, limit: float) -> str:
    return (
        f"weight '{boundary.baseline.name}', packed at '{boundary.entry.node.label}': {boundary.bad_weights} of "
        f"{boundary.error.elements} elements are further than {limit:g} steps from the baseline, the worst "
        f"{boundary.worst_weight}; {_on_data(boundary)}"
    ).removesuffix("; ")


def _on_data(boundary: Boundary) -> str:
    """Return why the note on rounding by data does not explain the distance, or a hint for formats of few bits."""
    if boundary.by_data is not None:
        return boundary.data_fault
    few = boundary.fmt.bits <= FEW_BITS
    return "codes that data chose (GPTQ), and the model does not note it, need --max-weight-steps inf" if few else ""
