"""The gate on a second run: the same sample gives the same outputs, in the model and in the baseline."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.models.ops.support.random_nodes import random_cause


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Report outputs that differed in a second run of the first sample; without such an output there is no gate."""
    job = evidence.job
    if not job.unrepeated:
        return
    indices = {"the model": job.index, "the baseline": job.baseline or job.index}
    yield GateResult.of(
        name="repeatable",
        requires="the same sample gives the same outputs in a second run",
        failures=(
            f"{which} gives another output '{name}' in a second run of the same sample: "
            f"{random_cause(indices[which])}; the numbers of this check mean nothing"
            for which, name in job.unrepeated
        ),
        detail=f"{len({name for _, name in job.unrepeated})} of {len(job.outputs)} outputs differ",
    )
