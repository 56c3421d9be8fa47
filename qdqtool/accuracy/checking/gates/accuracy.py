"""The gate on outputs that needs no limit: an error of more than half the output means that the output is lost.

Every model has the same limit: 6 dB for float outputs, and more agreement than by chance for integer outputs. A lower
``--min-sqnr`` lowers this limit too, but not below 0 dB.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from qdqtool.accuracy.checking.gates.activations import bound_of
from qdqtool.accuracy.checking.gates.distances import distance_fault
from qdqtool.accuracy.checking.limits import ACCURACY
from qdqtool.accuracy.checking.outputs import Deviation
from qdqtool.accuracy.checking.reference_run import CheckJob, Evidence
from qdqtool.accuracy.checking.report import GateResult, OutputResult
from qdqtool.accuracy.checking.sample_errors import VARIES_DB
from qdqtool.accuracy.checking.saved_outputs import SavedCheck
from qdqtool.errors import plural
from qdqtool.models.graph.index.view import Value

LEAST_DB = 6.0
"""SQNR in dB of a float output whose error is half of the output."""

PART_DB = 20.0
"""Channels and samples may have this many dB less than the limit of ``--min-sqnr``, but always need more than 0 dB. In
well-made models, they had up to 16.6 dB less (docs/developers/measurements.md)."""

STEP = 2.0**-8
"""An output with a known bound passes if its error is at most this share of the bound: one step of 8 bits. On some data
all scores are near 0, and have a low SQNR without a fault."""

LEAST_ERROR = 2.0**-20
"""An output with at most this error may be constant: a reference near 0 may be only float32 rounding."""

LEAST_OF_ONE_VALUE = 0.5
"""Share of elements that must agree if the reference has one value everywhere, since chance is no useful limit then."""


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge the outputs against the baseline's; with random inputs, faults are warnings."""
    job = evidence.job
    if job.baseline is None:
        return
    places = [(check.value, check.deviation) for check in job.outputs]
    faults = _faults(job, evidence.outputs, places, "output")
    yield _gate(ACCURACY.name, job, evidence.outputs, faults, is_random=evidence.is_random)


def saved_result(job: CheckJob, saved: SavedCheck, outputs: Sequence[OutputResult]) -> GateResult:
    """Judge saved outputs against the outputs of the reference."""
    places = [(check.value, saved.deviations[check.value.name]) for check in job.outputs]
    faults = _faults(job, outputs, places, "saved output")
    return _gate("outputs-accuracy", job, outputs, faults, is_random=False)


def _least(job: CheckJob) -> float:
    """Return the SQNR that every float output needs."""
    return LEAST_DB if job.gates.min_sqnr is None else min(LEAST_DB, job.gates.min_sqnr)


def _least_of_parts(job: CheckJob) -> float:
    """Return the SQNR that a channel, and three quarters of the samples, must exceed."""
    return max(0.0, (job.gates.min_sqnr or 0.0) - PART_DB)


def _faults(
    job: CheckJob, outputs: Sequence[OutputResult], places: Sequence[tuple[Value, Deviation]], what: str
) -> dict[str, str]:
    """Return the fault of each output that has one, by its name."""
    found = {}
    for result, (value, deviation) in zip(outputs, places, strict=True):
        bound = bound_of(job.index, value)
        fault = _fault(result, deviation, bound, _least(job))
        fault = fault or _lost_part(result, deviation, bound, _least_of_parts(job))
        if fault:
            found[result.name] = f"{what} '{result.name}': {fault}"
    return found


def _fault(result: OutputResult, deviation: Deviation, bound: float | None, least: float) -> str:
    """Return why an output is lost; empty if it is not lost, or if nothing was compared."""
    error = deviation.error
    if error.elements and error.nonfinite == error.elements:
        return "its reference is NaN or infinite everywhere, so that nothing was compared"
    if result.agreement is not None:
        return _no_agreement(result.agreement, deviation)
    if result.sqnr_db is None and not result.zero_reference:
        # Nothing differs except NaN and infinities, which the gate on them judges.
        return ""
    if bound is not None and result.max_abs is not None and result.max_abs <= bound * STEP:
        return ""
    larger = distance_fault(result, 0.0)
    if larger:
        return larger if result.zero_reference else f"{larger}: the error is larger than the output itself"
    return _no_variation(result, deviation) or _too_far(result, deviation, least)


def _lost_part(result: OutputResult, deviation: Deviation, bound: float | None, limit: float) -> str:
    """Return which channels or samples have at most a limit in dB, although the output as a whole is good."""
    if result.sqnr_db is None:
        return ""
    # The gate min-sqnr judges an output that misses its limit as a whole.
    limit = min(limit, max(0.0, result.sqnr_db - PART_DB))
    negligible = max(LEAST_ERROR, (bound or 0.0) * STEP)
    quartile = deviation.samples.lower_quartile(negligible)
    if quartile is not None and quartile <= limit:
        return f"a quarter of the samples has at most {quartile:.3g} dB, and must have more than {limit:g} dB"
    return deviation.variation.lost_part(limit, negligible)


def _too_far(result: OutputResult, deviation: Deviation, least: float) -> str:
    """Return the fault of an output below the least SQNR; empty if its reference is as small as rounding errors."""
    fault = distance_fault(result, least)
    if result.sqnr_db is None or not fault or deviation.error.max_abs <= LEAST_ERROR:
        return ""
    return f"{fault}: the error is more than {10 ** (-least / 20):.0%} of the output"


def _no_variation(result: OutputResult, deviation: Deviation) -> str:
    """Return why an output does not vary with the samples as its reference does; empty if it does."""
    variation, error = deviation.variation, deviation.error
    if error.max_abs <= LEAST_ERROR:
        return ""
    if variation.is_zero:
        return f"it is 0 everywhere, and the reference is up to {error.max_abs:.3g}"
    varying, varying_db = variation.reference, variation.reference_db
    if not varying or varying_db is None:
        return ""
    if variation.is_constant and varying_db < VARIES_DB:
        return f"it is the same in all {variation.samples} samples, and the reference is not"
    if result.sqnr_db is not None and result.sqnr_db < LEAST_DB and error.noise >= varying:
        return f"found {result.sqnr_db:.6g} dB: a constant output could have a smaller error"
    return ""


def _no_agreement(share: float, deviation: Deviation) -> str:
    agreement = deviation.agreement
    if len(agreement.expected) == 1:
        low = share < LEAST_OF_ONE_VALUE
        return f"{share:.1%} of the elements agree, although the reference has only one value" if low else ""
    if share > agreement.chance:
        return ""
    return f"{share:.1%} of the elements agree, no more than by chance ({agreement.chance:.1%})"


def _gate(
    name: str, job: CheckJob, outputs: Sequence[OutputResult], faults: Mapping[str, str], *, is_random: bool
) -> GateResult:
    compared = sum(result.exact is not None for result in outputs)
    missing = len(outputs) - compared
    found = f"{len(faults)} of {compared} outputs lost" if faults else plural(compared, "output")
    nothing = [] if compared or not outputs else ["no output could be compared"]
    failures = nothing if is_random else [*faults.values(), *nothing]
    result = GateResult.of(
        name=name,
        requires=f"every output has at least {_least(job):g} dB SQNR, its parts more than {_least_of_parts(job):g} dB, "
        "or agrees more than by chance",
        failures=failures,
        detail=f"{found}, {missing} SKIPPED" if missing else found,
        warnings=[f"{fault}; the inputs were random" for fault in faults.values()] if is_random else (),
    )
    return replace(result, limit=_least(job), missed_by=() if is_random else tuple(faults))
