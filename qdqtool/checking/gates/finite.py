"""The gate on outputs: no NaN or infinity that the baseline does not have at the same place."""

from collections.abc import Iterator

from qdqtool.checking.evidence import Evidence
from qdqtool.checking.report import GateResult


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge the outputs; always active."""
    job = evidence.job
    bad = [output for output in job.outputs if output.nonfinite and not output.nonfinite_as_in_baseline]
    origin = f"; {job.nonfinite_origin}" if job.nonfinite_origin else ""
    yield GateResult.of(
        name="finite",
        requires="no output has NaN or infinities"
        + (" where the baseline has none" if job.baseline is not None else ""),
        failures=(f"output '{each.value.name}' has {each.nonfinite} NaN or infinite elements{origin}" for each in bad),
        detail=f"{len(bad)} of {len(job.outputs)} outputs have them" if bad else f"{len(job.outputs)} outputs",
    )
