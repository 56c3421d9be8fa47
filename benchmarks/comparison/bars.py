"""The bars that qdqtool is held against, each with the figure reached."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

from benchmarks.comparison.contestants import (
    DEFAULT,
    DEFAULT_METHOD,
    FP8,
    HISTOGRAM,
    INT4_32,
    INT4_128,
    MAX,
    MODEL_OPTIMIZER,
    NO_DATA,
    ORT,
    OURS,
    nodes_of,
)
from benchmarks.comparison.measured import FLOAT, Result

TIME_LIMITS = {MAX: 1.5, HISTOGRAM: 2.5, DEFAULT: 2.5}
SQNR_SLACK = 0.1
INT4_LEAD = 0.2
UNEVEN_SLACK = 1.0
COLLAPSED = 10.0
"""SQNR in dB below which outputs have little to do with the float model's."""
UNEVEN, EVEN = "digits_depthwise_uneven", "digits_depthwise"


@dataclass(frozen=True, slots=True)
class Bar:
    """One demand.

    Attributes:
        subject: The model.
        what: What is demanded, with the contestant it is compared with.
        figure: What was reached.
        limit: What is demanded.
        unit: Of both; a ratio has none.
        at_least: Whether the figure must not be below the limit, instead of not above.
    """

    subject: str
    what: str
    figure: float
    limit: float
    unit: str = ""
    at_least: bool = True

    @property
    def margin(self) -> float:
        """By how much it is met; negative: missed."""
        return self.figure - self.limit if self.at_least else self.limit - self.figure

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.margin >= 0


def judge(results: Iterable[Result], clock: str) -> list[Bar]:
    """All bars that the results can be held against.

    Args:
        results: Of any subjects.
        clock: ``wall`` or ``cpu``: which time counts.
    """
    table = [result for result in results if result.tool != FLOAT and not result.failed]
    names = dict.fromkeys(result.model for result in table)
    bars = [bar for name in names for bar in _of([result for result in table if result.model == name], clock)]
    return [*bars, *_uneven(table)]


def _of(results: Sequence[Result], clock: str) -> Iterator[Bar]:
    yield from _times(results, clock)
    yield from _accuracy(results)
    yield from _int4(results)
    yield from _collapse(results)


def _times(results: Sequence[Result], clock: str) -> Iterator[Bar]:
    for result in _tool(results, OURS):
        ratio, limit = result.ratio(clock), TIME_LIMITS.get(result.group)
        if result.heavy and ratio is not None and limit is not None:
            what = f"time of {result.label} over plain inference ({clock})"
            yield Bar(result.model, what, ratio, limit, at_least=False)


def _accuracy(results: Sequence[Result]) -> Iterator[Bar]:
    """Ours by default against the best of the peers that quantize at most as much; then node for node."""
    for ours in _tool(results, OURS, DEFAULT, DEFAULT_METHOD):
        names = (ORT, MODEL_OPTIMIZER) if ours.trained else (ORT,)
        rivals = [rival for name in names for group in (MAX, HISTOGRAM) for rival in _tool(results, name, group)]
        rivals = [rival for rival in rivals if _is_measured(rival)]
        fair = [rival for rival in rivals if _covers(ours, rival)]
        if rivals and ours.quality:
            best = max(fair or rivals, key=_sqnr)
            what = f"SQNR of the default, against {best.label}{'' if fair else ', which quantizes more nodes'}"
            yield Bar(ours.model, what, ours.quality.worst, _sqnr(best) - SQNR_SLACK, "dB")
    yield from _node_for_node(results)


def _node_for_node(results: Sequence[Result]) -> Iterator[Bar]:
    """The rows in which ours quantizes the nodes that a peer chose, against that peer with the same mode."""
    for group, theirs in ((DEFAULT, (MAX, HISTOGRAM)), (FP8, (FP8,))):
        for name in (ORT, MODEL_OPTIMIZER):
            rivals = [one for each in theirs for one in _tool(results, name, each) if _is_measured(one)]
            for ours in _tool(results, OURS, group, nodes_of(name)) if rivals else []:
                best = max(rivals, key=_sqnr)
                what = f"SQNR of {group} on the nodes of {name}, against its {best.group}, {best.method}"
                yield Bar(ours.model, what, _sqnr(ours), _sqnr(best) - SQNR_SLACK, "dB")


def _int4(results: Sequence[Result]) -> Iterator[Bar]:
    for group in (INT4_128, INT4_32):
        for ours in _tool(results, OURS, group):
            for rival in _tool(results, ORT, group) if ours.method != NO_DATA else []:
                if ours.quality and _is_measured(rival) and rival.coverage and rival.coverage.weight_only:
                    limit = _sqnr(rival) + INT4_LEAD
                    yield Bar(ours.model, f"SQNR of {group}, against ORT", ours.quality.worst, limit, "dB")


def _collapse(results: Sequence[Result]) -> Iterator[Bar]:
    """No mode may destroy a trained model: the worst of all of them stands for the others."""
    judged = [result for result in _tool(results, OURS) if result.quality and result.trained]
    if judged:
        worst = min(judged, key=_sqnr)
        yield Bar(worst.model, f"worst SQNR of all modes ({worst.label})", _sqnr(worst), COLLAPSED, "dB")


def _uneven(results: Sequence[Result]) -> Iterator[Bar]:
    by_name = {one.model: one for one in _tool(results, OURS, DEFAULT, DEFAULT_METHOD) if one.quality}
    if UNEVEN in by_name and EVEN in by_name:
        what = "SQNR of the default, against the same network before scaling"
        yield Bar(UNEVEN, what, _sqnr(by_name[UNEVEN]), _sqnr(by_name[EVEN]) - UNEVEN_SLACK, "dB")


def _tool(results: Sequence[Result], tool: str, group: str = "", method: str = "") -> list[Result]:
    """Results of a tool; empty words stand for any."""
    return [one for one in results if one.tool == tool and group in ("", one.group) and method in ("", one.method)]


def _sqnr(result: Result) -> float:
    return result.quality.worst if result.quality else -float("inf")


def _is_measured(result: Result) -> bool:
    """Whether its outputs could be compared: beside a peer that gives no numbers everything would be good enough."""
    return isfinite(_sqnr(result))


def _covers(ours: Result, rival: Result) -> bool:
    """Whether ours quantizes at least as many nodes with heavy arithmetic."""
    return bool(ours.coverage and rival.coverage and rival.quality and ours.coverage.full >= rival.coverage.full)
