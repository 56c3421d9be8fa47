"""Name the layers whose pairs cost the outputs of a checked model most."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.accuracy.checking.baseline_matcher import BaselineMatcher
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.layers.blame import Blame, Extent, Probe, find_blame
from qdqtool.accuracy.layers.blame_report import BlameReport, blamed_layers, finite_db
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.layers.qdq_switches import OtherConstant, QdqSwitches, add_switches
from qdqtool.accuracy.layers.units import Unit
from qdqtool.errors import QdqError
from qdqtool.models.diff.matching import match
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.samples import Feeds
from qdqtool.samples.feeds import Progress

GATES = frozenset({"accuracy", "min-sqnr", "min-cosine", "max-metric-loss"})
"""The gates on outputs: where one of them is missed, layers are named."""

NAMED, LEAST_SHARE, RUNS, SAMPLES = 5, 0.05, 40, 4
"""Largest number of layers that are named, the smallest share of the noise that they make, and how many settings of how
many samples are run."""


@dataclass(frozen=True, slots=True)
class BlameRequest:
    """Whether layers are named.

    Attributes:
        always: Also where all gates on outputs hold.
        tick: Told of every setting that was run.
    """

    always: bool = False
    tick: Progress | None = None


def with_blame(
    report: CheckReport, index: ModelIndex, baseline: ModelIndex | None, feeds: Feeds, request: BlameRequest
) -> CheckReport:
    """Return a report with the layers that cost the worst output most; as it is where none were asked for.

    Args:
        report: The report of a check.
        index: The model.
        baseline: The float model; without one there is nothing to name.
        feeds: The samples of the check.
        request: When layers are named.
    """
    missed = any(gate.name in GATES and not gate.passed for gate in report.gates)
    if baseline is None or not (missed or request.always):
        return report
    worst = report.worst_output.name if report.worst_output is not None else None
    try:
        blame = _blame(index, baseline, feeds, worst, request.tick)
    except QdqError as error:
        blame = BlameReport(problem=error.message)
    return replace(report, blame=blame)


def _blame(
    index: ModelIndex, baseline: ModelIndex, feeds: Feeds, worst: str | None, tick: Progress | None
) -> BlameReport:
    counterparts = {after: before for before, after in match(baseline.view, index.view)[0].items()}
    weights = _float_weights(index, baseline)
    switches = add_switches(index, weights, tuple(_other_constants(counterparts, index, baseline)))
    if not switches.units:
        left = f": {switches.left_out[0]}" if switches.left_out else ""
        return BlameReport(problem=f"no pair can be switched{left}", left_out=switches.left_out)
    with MaskedRuns(switches, [dict(sample) for sample in feeds.first(SAMPLES)]) as runs:
        extent = Extent(RUNS, max(LEAST_SHARE, min(1.5 / len(switches.units), 0.5)), NAMED)
        found = find_blame(switches.units, Probe(runs, switches), extent, worst, tick)
        if found is None:
            return BlameReport(problem="no float output can be compared", left_out=switches.left_out)
        known = _renamed(found, switches, counterparts)
        return BlameReport(
            output=found.output,
            whole_db=finite_db(found.whole_db),
            samples=len(runs.samples),
            runs=runs.runs,
            layers=blamed_layers(known[0], known[1], baseline),
            rest_share=round(found.rest, 4),
            left_out=switches.left_out,
            float_db=_float_db(found.output, runs, baseline),
        )


def _float_weights(index: ModelIndex, baseline: ModelIndex) -> Callable[[QdqNode], Array | None]:
    matcher = BaselineMatcher(baseline.view, index.view)

    def weight(entry: QdqNode) -> Array | None:
        for candidate in matcher.of(index.qdq, entry):
            found = baseline.constants.readable(candidate) if baseline.is_constant(candidate) else None
            if found is not None and baseline.is_float(candidate):
                return found
        return None

    return weight


def _other_constants(
    counterparts: Mapping[NodeView, NodeView], index: ModelIndex, baseline: ModelIndex
) -> Iterator[OtherConstant]:
    """Yield the float constants whose values the baseline has otherwise, such as corrected biases."""
    for after, before in counterparts.items():
        for at in range(min(len(after.proto.input), len(before.proto.input))):
            mine, theirs = after.input(at), before.input(at)
            if mine is None or theirs is None or index.qdq.maker(mine) is not None:
                continue
            if index.constants.direct(mine) is None or baseline.constants.direct(theirs) is None:
                continue
            one, two = index.constants.readable(mine), baseline.constants.readable(theirs)
            if one is None or two is None or one.shape != two.shape or not index.is_float(mine):
                continue
            if one.dtype == two.dtype and not np.array_equal(one, two):
                yield OtherConstant(after, at, two)


def _renamed(
    found: Blame, switches: QdqSwitches, counterparts: Mapping[NodeView, NodeView]
) -> tuple[Blame, tuple[Unit, ...]]:
    """Return the layers with the nodes of the float model, which is the one that options of ``quantize`` name."""
    units = {
        unit: replace(unit, nodes=tuple(counterparts.get(node, node) for node in unit.nodes)) for unit in switches.units
    }
    loud = tuple(replace(each, unit=units[each.unit]) for each in found.loud)
    return replace(found, loud=loud), tuple(units.values())


def _float_db(output: str, runs: MaskedRuns, baseline: ModelIndex) -> float | None:
    """Return the SQNR of an output with all pairs off against the baseline; None where they are equal."""
    error = AccumulatedError()
    with open_session(baseline.model, plan_split(baseline)) as session:
        for number, sample in enumerate(runs.samples):
            error.add(session.run(sample, [output])[output], runs.expected(number)[output])
    decibels = error.sqnr_db
    return None if decibels is None or decibels == math.inf else round(decibels, 4)
