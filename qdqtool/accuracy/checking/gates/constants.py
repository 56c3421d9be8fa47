"""The gate on what was not quantized: biases, gains and float weights are those of the baseline."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Report the constants that differ from the baseline's and change its outputs."""
    form = evidence.job.float_form
    if form is None:
        return
    skipped = form.unknown or ("the graphs differ" if form.structure else "")
    corrected = f"{form.corrected} corrected or rounded" if form.corrected else "no difference that matters"
    faults = plural(len(form.constants), "fault") if form.constants else corrected
    yield GateResult.of(
        name="constants",
        requires="float constants are the baseline's, or biases corrected by the error of their layer",
        failures=(f"{line} (trained again? --max-weight-steps inf skips this gate)" for line in form.constants),
        detail=f"SKIPPED: {skipped}" if skipped else faults,
    )
