"""The gates on what was not quantized: without Q and DQ, constants and graph are those of the baseline."""

import math
from collections.abc import Iterator

from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Report constants that differ from the baseline's and change its outputs, or graphs that differ."""
    form = evidence.job.float_form
    if form is None or form.unknown:
        return
    corrected = f"{form.corrected} corrected or rounded" if form.corrected else "no difference that matters"
    if not form.structure:
        yield GateResult.of(
            name="constants",
            requires="float constants are the baseline's, or biases corrected by the error of their layer",
            failures=(f"{line} (trained again? --max-weight-steps inf skips this gate)" for line in form.constants),
            warnings=(f"{line}; give --data, which shows whether it is a correction" for line in form.doubtful),
            detail=plural(len(form.constants), "fault") if form.constants else corrected,
        )
    same = "every output is equal" if math.isinf(form.lowest_db) else f"worst output {form.lowest_db:.1f} dB"
    yield GateResult.of(
        name="structure",
        requires="without Q and DQ, the model computes the baseline",
        failures=[f"without Q and DQ, {form.structure}"] if form.structure else (),
        detail="the graphs differ" if form.structure else same,
    )
