"""The evidence of a check that has run: the input of the gates and of the report."""

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.accuracy.checking.reference_run import CheckJob
from qdqtool.accuracy.checking.report import BoundaryResult, OutputResult, SavedOutputs
from qdqtool.accuracy.task_metrics.measure import MetricResult
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.scope import display


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One check after its last sample.

    Attributes:
        job: The run, with the findings at each Q, DQ and output.
        outputs: The outputs of the model, as in the report.
        boundaries: The quantized tensors that were compared with the baseline, largest distance first.
        unmatched: Q and DQ nodes that could not be compared with the baseline, and why, in words.
        saved: The comparison with outputs that were saved elsewhere; None where there is no such file.
        metric: The task metric; None where none was requested.
        is_random: Whether the inputs were random.
    """

    job: CheckJob
    outputs: tuple[OutputResult, ...]
    boundaries: tuple[BoundaryResult, ...]
    unmatched: tuple[str, ...]
    saved: SavedOutputs | None
    metric: MetricResult | None
    is_random: bool = False

    @classmethod
    def of(cls, job: CheckJob, *, is_random: bool = False) -> "Evidence":
        """Collect the evidence of a run."""
        compared = [boundary.result() for boundary in job.boundaries if boundary.error.elements]
        return cls(
            job=job,
            outputs=tuple(output.result() for output in job.outputs),
            boundaries=tuple(sorted(compared, key=lambda result: -result.max_steps)),
            unmatched=tuple(_unmatched(job)),
            saved=job.sinks.saved.report() if job.sinks.saved is not None else None,
            metric=job.sinks.metric.result() if job.sinks.metric is not None else None,
            is_random=is_random,
        )


def _unmatched(job: CheckJob) -> Iterator[str]:
    for boundary in job.boundaries:
        if boundary.problem:
            yield f"{_label(boundary.entry)}: {boundary.problem}"
    for entry in job.lonely:
        yield f"{_label(entry)}: the baseline has no such tensor"


def _label(entry: QdqNode) -> str:
    scope = f" in {display(entry.node.scope.path)}" if entry.node.scope.path else ""
    return f"{entry.node.op_type} '{entry.node.label}'{scope} was not compared"
