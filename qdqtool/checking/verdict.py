"""From what a check found to its verdict: which gates were active, which held, and why."""

from collections.abc import Iterator

import numpy as np

from qdqtool.checking.boundaries import Boundary
from qdqtool.checking.distance_gates import distance_gates
from qdqtool.checking.metric import metric_gates
from qdqtool.checking.outputs import OutputCheck
from qdqtool.checking.qdq_reference import NodeCheck
from qdqtool.checking.reference_run import CheckJob
from qdqtool.checking.report import (
    BoundaryResult,
    CheckReport,
    EvaluatedNode,
    GateResult,
    KnownFault,
    NotObserved,
    OutputResult,
    QdqCount,
)
from qdqtool.data import DataDescription
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.qdq import QdqPair
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.graph.scope import display
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.running.ort_cpu import Reference

FEW_BITS = 4
"""Up to here formats have so few levels that quantizers choose codes by what products lose, not the nearest ones."""


def verdict(job: CheckJob, reference: Reference, data: DataDescription) -> CheckReport:
    """The report of a check that has run."""
    failures: list[str] = []
    outputs = tuple(output.result() for output in job.outputs)
    boundaries = _sorted_boundaries(job)
    saved = job.sinks.saved.report() if job.sinks.saved is not None else None
    metric = job.sinks.metric.result() if job.sinks.metric is not None else None
    gates = [*_gates(job, outputs, boundaries, failures)]
    if job.sinks.saved is not None and saved is not None:
        gates += job.sinks.saved.gates(saved, job.gates, failures)
    if metric is not None and job.gates.max_metric_loss is not None:
        gates += metric_gates(metric, job.gates.max_metric_loss, failures)
    checks = list(job.checks.values())
    return CheckReport(
        passed=all(gate.passed for gate in gates),
        model=str(job.index.view.model.path or ""),
        baseline=str(job.baseline.view.model.path or "") if job.baseline is not None else None,
        reference=reference,
        data=data,
        gates=tuple(gates),
        failures=tuple(failures),
        outputs=outputs,
        saved_outputs=saved,
        written=str(job.sinks.written) if job.sinks.written is not None else None,
        metric=metric,
        boundaries=boundaries,
        qdq=_count(checks),
        evaluated=tuple(_evaluated(job)),
        differences=tuple(check.difference() for check in checks if check.different),
        known_faults=_known_faults(checks),
        not_observed=tuple(_not_observed(job)),
        warnings=tuple(_warnings(job)),
    )


def _gates(
    job: CheckJob, outputs: tuple[OutputResult, ...], boundaries: tuple[BoundaryResult, ...], failures: list[str]
) -> Iterator[GateResult]:
    """Every active gate, in order; the reasons of those that fail are added to ``failures``."""
    yield _own_core(job, failures)
    yield _finite(job, failures)
    if job.index.qdq.pairs:
        yield _pairs(job, failures)
    if job.baseline is None:
        return
    gates = job.gates
    if gates.max_weight_steps is not None and any(boundary.is_packed for boundary in job.boundaries):
        yield _weights(job, gates.max_weight_steps, failures)
    floats = [result for result, check in zip(outputs, job.outputs, strict=True) if check.is_float]
    yield from distance_gates(floats, outputs, gates, failures, boundaries=boundaries)


def _own_core(job: CheckJob, failures: list[str]) -> GateResult:
    checks = job.checks.values()
    wrong = [check for check in checks if check.different]
    for check in wrong:
        node = check.entry.node
        failures.append(
            f"{node.op_type} '{node.label}'{_where(check)}: {check.different} of {check.elements} elements differ from "
            f"our core, by up to {check.max_steps:g} steps; {check.example}"
        )
    count = _count(list(checks))
    missing = count.total - count.checked - count.own
    rest = f", {count.own} that ONNX Runtime cannot run evaluated by our own core alone" if count.own else ""
    rest += f", {missing} SKIPPED" if missing else ""
    found = f"{len(wrong)} of {count.checked} differ" if wrong else f"{count.checked} of {count.total} agree"
    detail = found + rest
    return GateResult(
        name="own-core",
        requires="every Q and DQ in the reference equals our own core, bit for bit",
        passed=not wrong,
        detail=detail if checks else "the model has no Q or DQ",
    )


def _finite(job: CheckJob, failures: list[str]) -> GateResult:
    bad = [output for output in job.outputs if output.nonfinite and not _as_in_baseline(output.baseline, output)]
    by = f"; {job.nonfinite_origin}" if job.nonfinite_origin else ""
    failures.extend(f"output '{check.value.name}' has {check.nonfinite} NaN or infinite elements{by}" for check in bad)
    wanted = "no output has NaN or infinities" + (" where the baseline has none" if job.baseline is not None else "")
    detail = f"{len(bad)} of {len(job.outputs)} outputs have them" if bad else f"{len(job.outputs)} outputs"
    return GateResult(name="finite", requires=wanted, passed=not bad, detail=detail)


def _as_in_baseline(baseline: Value | None, output: OutputCheck) -> bool:
    return baseline is not None and output.deviation.error.nonfinite_mismatches == 0


def _pairs(job: CheckJob, failures: list[str]) -> GateResult:
    wrong = 0
    for pair in job.index.qdq.pairs:
        reason = _pair_fault(job.index, pair, job.checks[pair.dequantize])
        if reason:
            wrong += 1
            node, quantize = pair.dequantize.node, pair.quantize.node
            failures.append(f"DequantizeLinear '{node.label}' does not undo '{quantize.label}': {reason}")
    total = len(job.index.qdq.pairs)
    return GateResult(
        name="pairs",
        requires="every DQ undoes the Q before it: same scale, zero point and axis",
        passed=not wrong,
        detail=f"{wrong} of {total} do not" if wrong else f"{total} pairs",
    )


def _pair_fault(index: ModelIndex, pair: QdqPair, check: NodeCheck) -> str:
    """Why a DQ does not undo its Q: unequal constants, else unequal results on the data."""
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
    return np.zeros_like(other, FLOAT64) if zero is None and absent and other is not None else zero


def _same(left: Array, right: Array) -> bool:
    return np.array_equal(left.astype(FLOAT64).reshape(-1), right.astype(FLOAT64).reshape(-1), equal_nan=True)


def _shown(array: Array) -> str:
    values = array.astype(FLOAT64).reshape(-1)
    return f"{values[0]:.9g}" if values.size == 1 else f"{values[0]:.9g}, … ({values.size} values)"


def _weights(job: CheckJob, limit: float, failures: list[str]) -> GateResult:
    packed = [boundary for boundary in job.boundaries if boundary.is_packed]
    bad = [boundary for boundary in packed if boundary.is_unexplained]
    failures.extend(
        f"weight '{boundary.baseline.name}', packed at '{boundary.entry.node.label}': {boundary.bad_weights} of "
        f"{boundary.error.elements} elements are further than {limit:g} steps from the baseline, the worst "
        f"{boundary.worst_weight}; {_on_data(boundary)}".removesuffix("; ")
        for boundary in bad
    )
    by_data = sum(boundary.is_judged_by_data for boundary in packed)
    requires = f"every packed weight that was not clipped is within {limit:g} steps of the baseline's"
    found = f"{len(bad)} of {len(packed)} are not" if bad else f"{len(packed)} weights"
    return GateResult(
        name="weights",
        requires=f"{requires}, or as far off as when data chose its codes" if by_data else requires,
        passed=not bad,
        detail=f"{found}; data chose the codes of {by_data}" if by_data else found,
    )


def _on_data(boundary: Boundary) -> str:
    """Why a note of rounding by data does not explain distant weights, or what it could in formats of few bits."""
    if boundary.by_data is not None:
        return boundary.data_fault
    few = boundary.fmt.bits <= FEW_BITS
    return "codes that data chose (GPTQ), and the model does not note it, need --max-weight-steps inf" if few else ""


def _sorted_boundaries(job: CheckJob) -> tuple[BoundaryResult, ...]:
    compared = [boundary.result() for boundary in job.boundaries if boundary.error.elements]
    return tuple(sorted(compared, key=lambda result: -result.max_steps))


def _count(checks: list[NodeCheck]) -> QdqCount:
    ran = [check for check in checks if _was_checked(check)]
    own = sum(bool(check.own) for check in ran)
    return QdqCount(total=len(checks), checked=len(ran) - own, own=own)


def _evaluated(job: CheckJob) -> Iterator[EvaluatedNode]:
    if job.split is None:
        return
    for own in job.split.own.values():
        yield _evaluated_by("qdqtool", own.node, own.reason)
    for node in job.index.view.main.nodes:
        if node.key in job.split.widened:
            reason = "ONNX Runtime computes nothing in bfloat16; the float32 result is rounded to it"
            yield _evaluated_by("onnxruntime-float32", node, reason)


def _evaluated_by(evaluator: str, node: NodeView, reason: str) -> EvaluatedNode:
    graph = display(node.scope.path)
    return EvaluatedNode(node=node.label, op_type=node.op_type, graph=graph, evaluated_by=evaluator, reason=reason)


def _was_checked(check: NodeCheck) -> bool:
    return bool(check.elements or check.different)


def _where(check: NodeCheck) -> str:
    scope = display(check.entry.node.scope.path)
    return f" in {scope}" if scope else ""


def _known_faults(checks: list[NodeCheck]) -> tuple[KnownFault, ...]:
    faults = sorted({fault for check in checks for fault in check.faults})
    return tuple(
        KnownFault(
            fault=fault,
            nodes=tuple(check.entry.node.label for check in checks if fault in check.faults),
            elements=sum(check.faults[fault] for check in checks),
        )
        for fault in faults
    )


def _not_observed(job: CheckJob) -> Iterator[NotObserved]:
    for check in job.checks.values():
        if not _was_checked(check):
            yield _skipped(check.entry.node, check.entry.output, check.problem)
    for boundary in job.boundaries:
        if boundary.problem or not boundary.error.elements:
            reason = boundary.problem or "it did not run on this data"
            yield _skipped(boundary.entry.node, boundary.baseline, f"not compared with the baseline: {reason}")
    for output in job.outputs:
        others = output.deviation.error.other_shapes
        if others and output.value.producer is not None:
            reason = f"not compared with the baseline: its shape differs for {others} of the samples"
            yield _skipped(output.value.producer, output.value, reason)
    for entry in job.lonely:
        yield _skipped(entry.node, entry.data, "not compared: the baseline has no tensor of that name or place")


def _skipped(node: NodeView, value: Value | None, reason: str) -> NotObserved:
    tensor = value.name if value is not None else ""
    return NotObserved(node=node.label, graph=display(node.scope.path), tensor=tensor, reason=reason)


def _warnings(job: CheckJob) -> Iterator[str]:
    if not job.checks:
        yield "the model has no QuantizeLinear or DequantizeLinear: only its outputs were looked at"
    if job.baseline is not None and job.baseline.qdq.nodes:
        yield "the baseline has Q/DQ nodes itself: it is no float model"
    if job.sinks.saved is not None and not job.gates.bounds_outputs():
        yield (
            "no limit was given for the saved outputs: only names, types, shapes and finiteness were judged "
            "(--min-sqnr, --min-cosine, --max-steps and --max-metric-loss set limits)"
        )
    for output in job.outputs:
        if output.nonfinite and _as_in_baseline(output.baseline, output):
            yield f"output '{output.value.name}' has {output.nonfinite} NaN or infinite elements, as in the baseline"
