"""The gate on weights: scales must fit them, and stored codes must be the nearest to the weights of the baseline."""

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.accuracy.checking.boundaries import Boundary
from qdqtool.accuracy.checking.gates.activations import is_constant, misses
from qdqtool.accuracy.checking.pair_error import PairError
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural
from qdqtool.models.graph.index.qdq import QdqNode

FEW_BITS = 4
"""Largest number of bits of formats for which quantizers often choose codes by the error of products (GPTQ)."""


@dataclass(frozen=True, slots=True)
class _Weights:
    """The weights that were compared, and those that could not be compared.

    Attributes:
        quantized: Errors of the Qs that read a float weight.
        packed: Weights that are stored as codes, with their counterparts.
        unmatched: DQs of stored codes that could not be compared.
    """

    quantized: list[PairError]
    packed: list[Boundary]
    unmatched: list[QdqNode]

    @classmethod
    def of(cls, evidence: Evidence) -> "_Weights":
        job = evidence.job
        quantized = [each for each in job.pair_errors.values() if each.elements and is_constant(job.index, each)]
        packed = [boundary for boundary in job.boundaries if boundary.is_packed]
        seen = [boundary for boundary in packed if boundary.error.elements]
        unmatched = [boundary.entry for boundary in packed if not boundary.error.elements]
        unmatched += [entry for entry in job.lonely if not entry.is_quantize]
        return cls(quantized, seen, unmatched)


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge float weights that a Q reads and, with a baseline, stored codes."""
    weights = _Weights.of(evidence)
    compares = evidence.job.baseline is not None
    if not weights.quantized and not (compares and (weights.packed or weights.unmatched)):
        return
    limit = evidence.job.gates.max_weight_steps
    failures = [*_quantized_failures(weights.quantized), *_packed_failures(weights.packed, limit)]
    if weights.unmatched and not weights.packed and not weights.quantized:
        failures.append(
            f"none of the {len(weights.unmatched)} stored weights has a counterpart in the baseline: is it the float "
            "model that was quantized?"
        )
    requires, detail = _requires(weights, limit), _detail(weights, len(failures))
    yield GateResult.of(name="weights", requires=requires, failures=failures, detail=detail)


def _quantized_failures(quantized: list[PairError]) -> Iterator[str]:
    for error in quantized:
        if misses(error) and error.entry.data is not None:
            yield f"weight '{error.entry.data.name}', quantized at '{error.entry.node.label}': {error.describe()}"


def _packed_failures(packed: list[Boundary], limit: float | None) -> Iterator[str]:
    # A fault is in one weight or a few; training moves most elements of all weights.
    is_trained = len(packed) > 2 and all(2 * each.bad_weights > each.error.elements for each in packed)
    for boundary in packed:
        place = f"weight '{boundary.baseline.name}', packed at '{boundary.entry.node.label}'"
        if limit is not None and boundary.is_unexplained:
            trained = "; trained again? --max-weight-steps inf skips this comparison" if is_trained else ""
            yield f"{place}: {_distance(boundary, limit)}{trained}"
        elif boundary.fit is not None and misses(boundary.fit):
            yield f"{place}: {boundary.fit.describe()}"


def _requires(weights: _Weights, limit: float | None) -> str:
    condition = "every scale fits its weight"
    if limit is None or not weights.packed:
        return condition
    condition += f"; codes that were not clipped are within {limit:g} steps of the baseline"
    by_data = any(boundary.is_judged_by_data for boundary in weights.packed)
    return condition + ", or have the error that the model notes" * by_data


def _detail(weights: _Weights, failures: int) -> str:
    known = plural(len(weights.quantized) + len(weights.packed), "weight")
    found = f"{plural(failures, 'fault')} in {known}" if failures else known
    if weights.unmatched:
        found += f", {len(weights.unmatched)} without a counterpart SKIPPED"
    by_data = sum(boundary.is_judged_by_data for boundary in weights.packed)
    return f"{found}; data chose the codes of {by_data}" if by_data else found


def _distance(boundary: Boundary, limit: float) -> str:
    far = f"{boundary.bad_weights} of {boundary.error.elements} elements are further than {limit:g} steps"
    return f"{far} from the baseline, the worst {boundary.worst_weight}; {_on_data(boundary)}".removesuffix("; ")


def _on_data(boundary: Boundary) -> str:
    """Return why the model's note on data does not explain the distance, or a hint for formats of few bits."""
    if boundary.by_data is not None:
        return boundary.data_fault
    few = boundary.fmt.bits <= FEW_BITS
    return "if data chose the codes (GPTQ) and the model does not note it, give --max-weight-steps inf" if few else ""
