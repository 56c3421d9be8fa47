"""The gate on NaN and infinities. An output may have them only where the baseline has them, and a scale may have none.

A scale is judged separately, since its fault may not reach the outputs: for example, a Q turns NaN into a code.
"""

from collections.abc import Iterator

from qdqtool.accuracy.checking.outputs import nonfinite_count
from qdqtool.accuracy.checking.qdq_reference import described
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge the outputs and the constant scales; always active."""
    job = evidence.job
    bad = [output for output in job.outputs if output.nonfinite and not output.nonfinite_as_in_baseline]
    origin = f"; {job.nonfinite_origin}" if job.nonfinite_origin else ""
    yield GateResult.of(
        name="finite",
        requires="no output has NaN or infinities"
        + (" where the baseline has none" if job.baseline is not None else ""),
        failures=[
            *(f"output '{each.value.name}' has {each.nonfinite} NaN or infinite elements{origin}" for each in bad),
            *_scale_failures(evidence),
        ],
        detail=f"{len(bad)} of {len(job.outputs)} outputs have them" if bad else plural(len(job.outputs), "output"),
    )


def _scale_failures(evidence: Evidence) -> Iterator[str]:
    for entry in evidence.job.checks:
        scale = evidence.job.index.constant(entry.scale) if entry.scale is not None else None
        if scale is None:
            continue
        if count := nonfinite_count(scale):
            yield f"{described(entry)}: {count} of {scale.size} scales are NaN or infinite"
