"""The gates on the distance of outputs and quantized tensors from the values that they are compared with.

A gate with a limit from the user fails if it could not judge every value. An untested limit must not look like a limit
that holds.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from qdqtool.accuracy.checking.limits import MIN_AGREEMENT, MIN_COSINE, MIN_SQNR, Gates, OutputGate
from qdqtool.accuracy.checking.reference_run import Evidence
from qdqtool.accuracy.checking.report import BoundaryResult, GateResult, OutputResult
from qdqtool.errors import plural

OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class ComparedOutputs:
    """The values that the limits apply to.

    Attributes:
        outputs: All outputs.
        what: Word for an output in messages. Unless it is ``output``, the names of the gates begin with ``outputs-``.
        boundaries: Quantized tensors that were compared, for ``max-steps``.
        unmatched: Quantized tensors that could not be compared, and why, in words.
    """

    outputs: Sequence[OutputResult]
    what: str = OUTPUT
    boundaries: Sequence[BoundaryResult] = ()
    unmatched: Sequence[str] = ()

    @property
    def prefix(self) -> str:
        """The prefix of the names of gates on these outputs."""
        return "" if self.what == OUTPUT else "outputs-"

    def gate(self, gate: OutputGate) -> str:
        """Return the name of a gate on these outputs."""
        return self.prefix + gate.name

    @property
    def floats(self) -> list[OutputResult]:
        """The float outputs that were compared."""
        return [result for result in self.outputs if result.exact is not None and result.agreement is None]

    @property
    def others(self) -> list[OutputResult]:
        """The integer, boolean and string outputs that were compared."""
        return [result for result in self.outputs if result.agreement is not None]

    @property
    def missing(self) -> Iterator[str]:
        """The reasons why outputs, or some of their samples, were not compared, one line each."""
        for result in self.outputs:
            if result.other_shapes:
                shapes = " against ".join(str(list(shape)) for shape in result.differing_shapes or ())
                samples = plural(result.other_shapes, "sample")
                yield f"{self.what} '{result.name}' has another shape in {samples}: {shapes}, not compared"
            elif result.exact is None:
                yield f"{self.what} '{result.name}' has no elements that could be compared"


def results(evidence: Evidence) -> Iterator[GateResult]:
    """Judge the gates whose limits the user gave; without a baseline, yield nothing."""
    job = evidence.job
    if job.baseline is not None:
        yield from distance_gates(
            ComparedOutputs(evidence.outputs, OUTPUT, evidence.boundaries, evidence.unmatched), job.gates
        )


def distance_gates(compared: ComparedOutputs, limits: Gates) -> Iterator[GateResult]:
    """Judge each of the gates ``min-sqnr``, ``min-cosine``, ``min-agreement`` and ``max-steps`` that has a limit."""
    judges_floats = bool(compared.floats or list(compared.missing) or not compared.others)
    if limits.min_sqnr is not None and judges_floats:
        yield _min_sqnr(compared, limits.min_sqnr)
    if limits.min_cosine is not None and judges_floats:
        yield _min_cosine(compared, limits.min_cosine)
    if limits.agreement is not None and (compared.others or limits.min_agreement is not None):
        yield _min_agreement(compared, limits.agreement)
    if limits.max_steps is not None:
        yield _max_steps(compared, limits.max_steps)


def distance_fault(result: OutputResult, limit: float) -> str:
    """Return why a float output misses a limit in dB; empty if the output reaches the limit.

    An output whose reference is 0 everywhere has no SQNR. Its largest error must then be at most ``10**(-limit / 20)``,
    the limit for a signal of magnitude 1.
    """
    if result.exact:
        return ""
    if result.zero_reference:
        allowed = 10 ** (-limit / 20)
        found = result.max_abs if result.max_abs is not None else float("nan")
        # `not <=` instead of `>`, so that NaN misses the gate.
        return f"the reference is 0 everywhere, and the error {found:.6g} exceeds {allowed:.3g}" * (
            not found <= allowed
        )
    ratio = result.sqnr_db if result.sqnr_db is not None else float("nan")
    return "" if ratio >= limit else f"found {ratio:.6g} dB"


def _min_sqnr(compared: ComparedOutputs, limit: float) -> GateResult:
    name, judged = compared.gate(MIN_SQNR), compared.floats
    found = ((result.name, distance_fault(result, limit)) for result in judged)
    faults = {
        output: f"{compared.what} '{output}': {name} is {limit:g} dB, {fault}" for output, fault in found if fault
    }
    requires = f"at least {limit:g} dB at every float {compared.what}"
    detail = _worst([(result.name, result.sqnr_db) for result in judged], " dB")
    return _least(compared, name, limit, judged, faults, requires=requires, detail=detail)


def _min_cosine(compared: ComparedOutputs, limit: float) -> GateResult:
    name, judged = compared.gate(MIN_COSINE), compared.floats
    values = [(result.name, 1.0 if result.exact else (result.cosine or 0.0)) for result in judged]
    requires = f"at least {limit:g} at every float {compared.what}"
    faults = _below(compared.what, name, values, limit)
    return _least(compared, name, limit, judged, faults, requires=requires, detail=_worst(values, ""))


def _min_agreement(compared: ComparedOutputs, limit: float) -> GateResult:
    name = compared.gate(MIN_AGREEMENT)
    values = [(result.name, result.agreement or 0.0) for result in compared.others]
    worst = min(values, key=lambda entry: entry[1], default=None)
    requires = f"{limit:.4g} of the elements of every integer, boolean and string {compared.what} agree"
    detail = f"worst {worst[1]:.4g} at '{worst[0]}'" if worst is not None else "nothing to judge"
    faults = _below(compared.what, name, values, limit)
    return _least(compared, name, limit, compared.others, faults, requires=requires, detail=detail)


def _below(what: str, name: str, values: Iterable[tuple[str, float]], limit: float) -> dict[str, str]:
    """Return the fault of each output below a limit, by its name."""
    # `not >=` instead of `<`, so that NaN misses the gate.
    return {
        output: f"{what} '{output}': {name} is {limit:g}, found {value:.6g}"
        for output, value in values
        if not value >= limit
    }


def _least(
    compared: ComparedOutputs,
    name: str,
    limit: float,
    judged: Sequence[OutputResult],
    faults: Mapping[str, str],
    **words: str,
) -> GateResult:
    """Return the result of a gate on some outputs. The gate also fails for outputs that it could not judge."""
    unjudged = list(compared.missing)
    if not judged and not unjudged:
        unjudged = ["there is no output that it could judge"]
    failures = [*faults.values(), *(f"{name}: {line}" for line in unjudged)]
    return replace(GateResult.of(name=name, failures=failures, **words), limit=limit, missed_by=tuple(faults))


def _worst(values: Iterable[tuple[str, float | None]], unit: str) -> str:
    known = [(output, value) for output, value in values if value is not None]
    worst = min(known, key=lambda entry: entry[1], default=None)
    return f"worst {worst[1]:.6g}{unit} at '{worst[0]}'" if worst is not None else "no output with an error"


def _max_steps(compared: ComparedOutputs, limit: float) -> GateResult:
    name = compared.prefix + "max-steps"
    places = [(f"{compared.what} '{r.name}'", r.max_steps) for r in compared.outputs if r.max_steps is not None]
    places += [(f"{place.kind} '{place.tensor}' at '{place.node}'", place.max_steps) for place in compared.boundaries]
    worst = max(places, key=lambda entry: entry[1], default=None)
    failures = [
        f"{place} is {steps:.6g} steps off; {name} is {limit:g}" for place, steps in places if not steps <= limit
    ]
    failures += [f"{name}: {line}" for line in compared.unmatched]
    if worst is None:
        failures.append(f"{name}: nothing quantized was compared: no DequantizeLinear makes the {compared.what}s")
    return GateResult.of(
        name=name,
        requires=f"no quantized tensor is further than {limit:g} steps off",
        failures=failures,
        detail=f"worst {worst[1]:.6g} at {worst[0]}" if worst is not None else "nothing quantized was compared",
    )
