"""The gates on outputs that were saved elsewhere, such as outputs of an engine, against the reference."""

from collections.abc import Iterator

from qdqtool.accuracy.checking.gates.accuracy import saved_result
from qdqtool.accuracy.checking.gates.distances import ComparedOutputs, distance_gates
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import GateResult
from qdqtool.errors import plural

WHAT = "saved output"


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge saved outputs; active where the user gave some."""
    job, saved = evidence.job, evidence.job.sinks.saved
    if saved is None or evidence.saved is None:
        return
    outputs = evidence.saved.outputs
    bad = [each for each in outputs if each.nonfinite and saved.deviations[each.name].error.nonfinite_mismatches]
    yield GateResult.of(
        name="outputs-finite",
        requires="no saved output has NaN or infinities where the reference has none",
        failures=(f"{WHAT} '{each.name}' has {each.nonfinite} NaN or infinite elements" for each in bad),
        detail=f"{len(bad)} of {len(outputs)} outputs have them" if bad else plural(len(outputs), "output"),
    )
    yield saved_result(job, saved, outputs)
    yield from distance_gates(ComparedOutputs(outputs, WHAT), job.gates)
