"""Make the report of a check from its findings: the active gates, whether they passed, and why."""

from collections.abc import Iterator
from dataclasses import replace

from qdqtool.accuracy.checking.gates import gate_results
from qdqtool.accuracy.checking.qdq_reference import NodeCheck, qdq_count
from qdqtool.accuracy.checking.reference_run import CheckJob, Evidence
from qdqtool.accuracy.checking.report import (
    DID_NOT_RUN,
    BoundaryResult,
    CheckReport,
    EvaluatedNode,
    KnownFault,
    NotObserved,
)
from qdqtool.accuracy.checking.worst_output import worst_output
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.scope import display
from qdqtool.models.report import Reference
from qdqtool.models.targets import type_name
from qdqtool.numerics import formats
from qdqtool.samples.report import DataDescription


def verdict(job: CheckJob, reference: Reference, data: DataDescription) -> CheckReport:
    """Return the report of a check that has run."""
    evidence = Evidence.of(job, is_random=data.seed is not None)
    gates = tuple(gate_results(evidence))
    checks = list(job.checks.values())
    return CheckReport(
        passed=all(gate.passed for gate in gates),
        model=str(job.index.model.path or ""),
        baseline=str(job.baseline.view.model.path or "") if job.baseline is not None else None,
        reference=reference,
        data=replace(data, repeated=data.samples - len(job.distinct)),
        gates=gates,
        failures=tuple(failure for gate in gates for failure in gate.failures),
        outputs=evidence.outputs,
        saved_outputs=evidence.saved,
        written=str(job.sinks.written) if job.sinks.written is not None else None,
        metric=evidence.metric,
        boundaries=evidence.boundaries,
        qdq=qdq_count(checks),
        evaluated=tuple(_evaluated(job)),
        differences=tuple(check.difference() for check in checks if check.different),
        known_faults=_known_faults(checks),
        not_observed=tuple(_not_observed(job)),
        warnings=(*_warnings(job), *(warning for gate in gates for warning in gate.warnings)),
        worst_output=worst_output(evidence.outputs, gates),
        empty_limits=tuple(job.gates.empty(map(_codes, evidence.boundaries))),
        baseline_qdq=len(job.baseline.qdq.nodes) if job.baseline is not None else 0,
    )


def _codes(boundary: BoundaryResult) -> float:
    """Return the largest distance of two values in the range of a format, in steps."""
    fmt = formats.get(boundary.format)
    return fmt.high - fmt.low


def _evaluated(job: CheckJob) -> Iterator[EvaluatedNode]:
    if job.split is None:
        return
    for own in job.split.own.values():
        yield _evaluated_by("qdqtool", own.node, own.reason)
    for node in job.index.view.nodes():
        if half := job.split.widened.get((node.scope.path, node.key)):
            found = _evaluated_by("onnxruntime-float32", node, "ONNX Runtime computes it in float32")
            yield replace(found, type=type_name(half))


def _evaluated_by(evaluator: str, node: NodeView, reason: str) -> EvaluatedNode:
    graph = display(node.scope.path)
    return EvaluatedNode(node=node.label, op_type=node.op_type, graph=graph, evaluated_by=evaluator, reason=reason)


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
        if not check.was_checked:
            yield _skipped(check.entry.node, check.entry.output, check.problem)
    for boundary in job.boundaries:
        if boundary.problem or not boundary.error.elements:
            reason = boundary.problem or DID_NOT_RUN
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
    if not job.checks and (job.split is None or not job.split.own):
        yield "the model has no QuantizeLinear or DequantizeLinear: only its outputs were checked"
    if job.float_form is not None and job.float_form.unknown:
        yield f"constants and graph were not compared with the baseline: {job.float_form.unknown}"
    if job.sinks.saved is not None and not job.gates.bounds_outputs():
        yield (
            "no limit was given for the saved outputs: only an error as large as the output fails "
            "(--min-sqnr, --min-cosine, --min-agreement, --max-steps and --max-metric-loss set limits)"
        )
    for output in job.outputs:
        if output.nonfinite and output.nonfinite_as_in_baseline:
            yield f"output '{output.value.name}' has {output.nonfinite} NaN or infinite elements, as in the baseline"
