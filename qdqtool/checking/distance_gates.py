"""The gates on how far outputs and quantized tensors are from what they are compared with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdqtool.checking.report import BoundaryResult, GateResult, Gates, OutputResult

OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Limit:
    """A least value, and what it is called."""

    name: str
    least: float
    unit: str = ""


def distance_gates(
    floats: Sequence[OutputResult],
    outputs: Sequence[OutputResult],
    limits: Gates,
    failures: list[str],
    *,
    what: str = OUTPUT,
    boundaries: Sequence[BoundaryResult] = (),
) -> Iterator[GateResult]:
    """Those of ``min-sqnr``, ``min-cosine`` and ``max-steps`` that have a limit.

    Args:
        floats: The float outputs.
        outputs: All outputs.
        limits: The limits.
        failures: Reasons are added here.
        what: What messages call an output. Unless it is just that, the names of the gates begin with ``outputs-``.
        boundaries: Quantized tensors, for ``max-steps``.
    """
    prefix = "" if what == OUTPUT else "outputs-"
    if limits.min_sqnr is not None:
        values = [(result.name, _ratio(result)) for result in floats]
        yield _at_least(Limit(f"{prefix}min-sqnr", limits.min_sqnr, " dB"), values, failures, what)
    if limits.min_cosine is not None:
        values = [(result.name, 1.0 if result.exact else (result.cosine or 0.0)) for result in floats]
        yield _at_least(Limit(f"{prefix}min-cosine", limits.min_cosine), values, failures, what)
    if limits.max_steps is not None:
        found = [(f"{what} '{r.name}'", r.max_steps) for r in outputs if r.max_steps is not None]
        found += [(f"{place.kind} '{place.tensor}' at '{place.node}'", place.max_steps) for place in boundaries]
        yield _max_steps(f"{prefix}max-steps", found, limits.max_steps, failures)


def _ratio(result: OutputResult) -> float:
    """The signal to noise ratio as a number that can be compared: equal is infinitely good, undefined is bad."""
    if result.exact:
        return float("inf")
    return result.sqnr_db if result.sqnr_db is not None else float("-inf")


def _at_least(limit: Limit, values: list[tuple[str, float]], failures: list[str], what: str) -> GateResult:
    low = [(output, value) for output, value in values if not value >= limit.least]
    failures.extend(
        f"{what} '{output}': {limit.name} is {limit.least:g}{limit.unit}, found {value:.6g}{limit.unit}"
        for output, value in low
    )
    worst = min(values, key=lambda entry: entry[1], default=None)
    detail = f"worst {worst[1]:.6g}{limit.unit} at '{worst[0]}'" if worst is not None else "no float output"
    wanted = f"at least {limit.least:g}{limit.unit} at every float {what}"
    return GateResult(name=limit.name, requires=wanted, passed=not low, detail=detail)


def _max_steps(name: str, found: list[tuple[str, float]], limit: float, failures: list[str]) -> GateResult:
    far = [(place, steps) for place, steps in found if steps > limit]
    failures.extend(f"{place} is {steps:.6g} steps off; {name} is {limit:g}" for place, steps in far)
    worst = max(found, key=lambda entry: entry[1], default=None)
    detail = f"worst {worst[1]:.6g} at {worst[0]}" if worst is not None else "nothing quantized was compared"
    wanted = f"no quantized tensor is further than {limit:g} steps off"
    return GateResult(name=name, requires=wanted, passed=not far, detail=detail)
