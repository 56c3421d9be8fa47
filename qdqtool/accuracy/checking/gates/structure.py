"""The gate on the graph: without Q and DQ, and with the baseline's constants, a model computes the baseline."""

import math
from collections.abc import Iterator

from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Report graphs that differ by more than Q and DQ."""
    form = evidence.job.float_form
    if form is None:
        return
    same = "every output is equal" if math.isinf(form.lowest_db) else f"worst output {form.lowest_db:.1f} dB"
    yield GateResult.of(
        name="structure",
        requires="without Q and DQ, the model computes the baseline",
        failures=[f"without Q and DQ, {form.structure}"] if form.structure else (),
        detail=f"SKIPPED: {form.unknown}" if form.unknown else "the graphs differ" if form.structure else same,
    )
