"""The evidence of a check that has run: the input of the gates and of the report."""

from dataclasses import dataclass

from qdqtool.checking.reference_run import CheckJob
from qdqtool.checking.report import BoundaryResult, MetricResult, OutputResult, SavedOutputs


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """One check after its last sample.

    Attributes:
        job: The run, with the findings at each Q, DQ and output.
        outputs: The outputs of the model, as in the report.
        boundaries: The quantized tensors that were compared with the baseline, largest distance first.
        saved: The comparison with outputs that were saved elsewhere; None where there is no such file.
        metric: The task metric; None where none was requested.
    """

    job: CheckJob
    outputs: tuple[OutputResult, ...]
    boundaries: tuple[BoundaryResult, ...]
    saved: SavedOutputs | None
    metric: MetricResult | None

    @classmethod
    def of(cls, job: CheckJob) -> "Evidence":
        """Collect the evidence of a run."""
        compared = [boundary.result() for boundary in job.boundaries if boundary.error.elements]
        return cls(
            job=job,
            outputs=tuple(output.result() for output in job.outputs),
            boundaries=tuple(sorted(compared, key=lambda result: -result.max_steps)),
            saved=job.sinks.saved.report() if job.sinks.saved is not None else None,
            metric=job.sinks.metric.result() if job.sinks.metric is not None else None,
        )
