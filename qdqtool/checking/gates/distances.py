"""The gates on the distance of outputs and quantized tensors from the values that they are compared with."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from qdqtool.checking.evidence import Evidence
from qdqtool.checking.report import BoundaryResult, GateResult, Gates, OutputResult

OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class _Limit:
    """A lower limit with its name and unit."""

    name: str
    least: float
    unit: str = ""


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge ``min-sqnr``, ``min-cosine`` and ``max-steps``; each is active with a baseline and a limit."""
    job = evidence.job
    if job.baseline is None:
        return
    floats = [result for result, check in zip(evidence.outputs, job.outputs, strict=True) if check.is_float]
    yield from distance_gates(floats, evidence.outputs, job.gates, boundaries=evidence.boundaries)


def distance_gates(
    floats: Sequence[OutputResult],
    outputs: Sequence[OutputResult],
    limits: Gates,
    *,
    what: str = OUTPUT,
    boundaries: Sequence[BoundaryResult] = (),
) -> Iterator[GateResult]:
    """Judge those of ``min-sqnr``, ``min-cosine`` and ``max-steps`` that have a limit.

    Args:
        floats: The float outputs.
        outputs: All outputs.
        limits: The limits.
        what: Word for an output in messages. Unless it is ``output``, the names of the gates begin with ``outputs-``.
        boundaries: Quantized tensors, for ``max-steps``.
    """
    prefix = "" if what == OUTPUT else "outputs-"
    if limits.min_sqnr is not None:
        values = [(result.name, _ratio(result)) for result in floats]
        yield _at_least(_Limit(f"{prefix}min-sqnr", limits.min_sqnr, " dB"), values, what)
    if limits.min_cosine is not None:
        values = [(result.name, 1.0 if result.exact else (result.cosine or 0.0)) for result in floats]
        yield _at_least(_Limit(f"{prefix}min-cosine", limits.min_cosine), values, what)
    if limits.max_steps is not None:
        found = [(f"{what} '{r.name}'", r.max_steps) for r in outputs if r.max_steps is not None]
        found += [(f"{place.kind} '{place.tensor}' at '{place.node}'", place.max_steps) for place in boundaries]
        yield _max_steps(f"{prefix}max-steps", found, limits.max_steps)


def _ratio(result: OutputResult) -> float:
    """Return the SQNR as a number to compare: infinity for equal outputs, minus infinity where it is undefined."""
    if result.exact:
        return float("inf")
    return result.sqnr_db if result.sqnr_db is not None else float("-inf")


def _at_least(limit: _Limit, values: Sequence[tuple[str, float]], what: str) -> GateResult:
    # `not >=` instead of `<`, so that NaN misses the gate.
    low = [(output, value) for output, value in values if not value >= limit.least]
    return GateResult.of(
        name=limit.name,
        requires=f"at least {limit.least:g}{limit.unit} at every float {what}",
        failures=(
            f"{what} '{output}': {limit.name} is {limit.least:g}{limit.unit}, found {value:.6g}{limit.unit}"
            for output, value in low
        ),
        detail=_worst(min(values, key=lambda entry: entry[1], default=None), limit.unit),
    )


def _worst(worst: tuple[str, float] | None, unit: str) -> str:
    return f"worst {worst[1]:.6g}{unit} at '{worst[0]}'" if worst is not None else "no float output"


def _max_steps(name: str, found: Iterable[tuple[str, float]], limit: float) -> GateResult:
    places = list(found)
    worst = max(places, key=lambda entry: entry[1], default=None)
    return GateResult.of(
        name=name,
        requires=f"no quantized tensor is further than {limit:g} steps off",
        failures=(f"{place} is {steps:.6g} steps off; {name} is {limit:g}" for place, steps in places if steps > limit),
        detail=f"worst {worst[1]:.6g} at {worst[0]}" if worst is not None else "nothing quantized was compared",
    )
