"""The worst output of a check, the one furthest from that of the float model, and whether outputs have a limit."""

import math
from collections.abc import Iterable

from qdqtool.accuracy.checking.limits import ACCURACY, MIN_AGREEMENT, MIN_SQNR, ON_OUTPUTS
from qdqtool.accuracy.checking.report import CheckReport, GateResult, OutputResult, WorstOutput


def worst_output(outputs: Iterable[OutputResult], gates: Iterable[GateResult]) -> WorstOutput | None:
    """Return the worst of the outputs that are not exact, or None if all are exact."""
    unequal = [output for output in outputs if output.exact is False]
    worst = min(unequal, key=_rank, default=None)
    if worst is None:
        return None
    names = {gate.name for gate in gates}
    strictest = (MIN_SQNR if worst.agreement is None else MIN_AGREEMENT).name
    return WorstOutput(
        name=worst.name,
        gate=strictest if strictest in names else ACCURACY.name,
        sqnr_db=worst.sqnr_db if worst.agreement is None else None,
        agreement=worst.agreement,
        max_abs=worst.max_abs if worst.zero_reference else None,
    )


def _rank(output: OutputResult) -> float:
    """Return a number that is lower for worse outputs: the SQNR, or for integers the share of wrong elements in dB."""
    if output.agreement is not None:
        return -10 * math.log10(max(1 - output.agreement, 1e-30))
    return output.sqnr_db if output.sqnr_db is not None else 0.0


def is_limited(check: CheckReport) -> bool:
    """Return whether a limit holds for every output that is not exact; one on agreement is none for float outputs."""
    limits = ON_OUTPUTS & {gate.name for gate in check.gates}
    differing = [output for output in check.outputs if not output.exact]
    if limits == {"min-agreement"}:
        return all(output.agreement is not None for output in differing)
    return bool(limits) or (bool(check.outputs) and not differing)
