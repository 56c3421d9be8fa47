"""Find the worst output of a check, which is furthest from the float model, and judge the check."""

import math
from collections.abc import Iterable, Iterator

from qdqtool.accuracy.checking.limits import ACCURACY, MIN_AGREEMENT, MIN_SQNR, ON_OUTPUTS
from qdqtool.accuracy.checking.report import DID_NOT_RUN, CheckReport, GateResult, OutputResult, WorstOutput
from qdqtool.errors import plural
from qdqtool.results import Judgement

LOW_SQNR = 20.0
"""SQNR in dB below which an output gets a warning without a limit. At 20 dB the error is a tenth of the output."""
LOW_AGREEMENT = 0.9


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


def _is_limited(check: CheckReport) -> bool:
    """Return whether each output that is not exact has a limit; for floats, a limit on agreement does not count."""
    limits = ON_OUTPUTS & {gate.name for gate in check.gates}
    differing = [output for output in check.outputs if not output.exact]
    if limits == {"min-agreement"}:
        return all(output.agreement is not None for output in differing)
    return bool(limits) or (bool(check.outputs) and not differing)


def judge_check(check: CheckReport, limit: str | None) -> Iterator[Judgement]:
    """Yield the failure of a check, its warnings, or a judgement that it passed.

    Args:
        check: The report of the check.
        limit: The option for a limit on the SQNR, named in hints; None if an accuracy target permits a low SQNR.
    """
    missed = [gate.name for gate in check.gates if not gate.passed]
    if missed or check.failures or not check.passed:
        first, *others = check.failures or (f"missed: {', '.join(missed)}",)
        more = f" (and {len(others)} more)" if others else ""
        yield Judgement("numbers", "failed", f"{first}{more}")
        return
    doubts = tuple(_doubts(check, limit))
    yield from doubts
    if not doubts:
        held = f"{plural(len(check.gates), 'gate')} held on {plural(check.data.distinct, 'sample')}"
        yield Judgement("numbers", "passed", f"{held}, against {check.baseline}")


def _doubts(check: CheckReport, limit: str | None) -> Iterator[Judgement]:
    if not check.qdq.total:
        yield Judgement("numbers", "warning", "the model has no Q/DQ nodes: nothing quantized was checked")
    if check.baseline is None:
        detail = "no output was compared with a float model"
        yield Judgement("numbers", "warning", detail, "`--baseline FLOAT.onnx`")
    elif check.baseline_qdq:
        detail = f"the baseline has {plural(check.baseline_qdq, 'Q/DQ node')} itself: it is no float model"
        yield Judgement("numbers", "warning", detail, "`--baseline FLOAT.onnx`")
    for given in check.empty_limits:
        yield Judgement("numbers", "warning", f"{given} limits nothing: nearly every model meets it")
    idle = [each.node for each in check.not_observed if each.reason == DID_NOT_RUN]
    if idle:
        detail = f"no sample ran {plural(len(idle), 'Q/DQ node')}, such as '{idle[0]}': nothing was measured there"
        yield Judgement("numbers", "warning", detail)
    lost = [each for each in check.metric.classes if each.is_lost] if check.metric is not None else []
    if lost:
        worst, others = lost[0], f" (and of {len(lost) - 1} more)" if len(lost) > 1 else ""
        detail = f"the recall of class {worst.label} fell from {worst.baseline:.3g} % to {worst.value:.3g} %{others}"
        yield Judgement("numbers", "warning", detail)
    if check.data.seed is not None:
        yield Judgement("numbers", "warning", "random inputs were run: real data may give other numbers", "`--data`")
    elif check.baseline is not None and limit is not None and not _is_limited(check):
        yield from _low(check, limit)


def _low(check: CheckReport, limit: str) -> Iterator[Judgement]:
    """Yield a warning if the worst output has low accuracy and no limit allows it."""
    worst = worst_output(check.outputs, check.gates)
    if worst is not None and worst.sqnr_db is not None and worst.sqnr_db < LOW_SQNR:
        kept = max(int(worst.sqnr_db), 0)
        yield Judgement(
            "numbers",
            "warning",
            f"output '{worst.name}' keeps {worst.sqnr_db:.1f} dB, and no limit on the accuracy was given",
            f"`--min-sqnr {LOW_SQNR:.0f}` of quantize leaves layers in float to reach {LOW_SQNR:.0f} dB; "
            f"`{limit} {kept}` accepts the {kept} dB",
        )
    elif worst is not None and worst.agreement is not None and worst.agreement < LOW_AGREEMENT:
        detail = f"{worst.agreement:.1%} of output '{worst.name}' are equal, and no limit on the accuracy was given"
        yield Judgement("numbers", "warning", detail, f"`--min-agreement {worst.agreement:.2f}` accepts that")
