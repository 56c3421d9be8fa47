"""Name the layers whose pairs make most of the noise at the outputs of a checked model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from qdqtool.accuracy.checking.limits import FIND_LAYERS
from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.accuracy.layers.baseline_matcher import BaselineMatcher
from qdqtool.accuracy.layers.constant_faults import other_constants
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.layers.noise_ranking import (
    NoiseRanking,
    SearchBudget,
    blamed_layers,
    finite_db,
    rank_noise,
    sqnr_with,
)
from qdqtool.accuracy.layers.qdq_switches import QdqSwitches, add_switches
from qdqtool.accuracy.report import BlameReport, NoiseCause
from qdqtool.errors import QdqError
from qdqtool.models.diff.matching import match
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics.dtypes import Array
from qdqtool.samples.feeds import Feeds, Progress

NAMED, LEAST_SHARE, RUNS, SAMPLES = 5, 0.05, 40, 4
"""Largest number of layers that are named, smallest share of the noise that such a layer makes, largest number of runs,
and largest number of samples in a run."""


@dataclass(frozen=True, slots=True)
class BlameRequest:
    """A request to name layers.

    Attributes:
        always: Whether layers are named even if all gates on outputs hold.
        tick: Called after each run with the number of runs so far, and the largest number of runs.
        clipping: The share of values that a Q clips, for each Q that clips many.
        calibrator: The calibration method that the model records, if any.
    """

    always: bool = False
    tick: Progress | None = None
    clipping: Mapping[QdqNode, float] = field(default_factory=dict)
    calibrator: str = ""


def with_blame(
    report: CheckReport, index: ModelIndex, baseline: ModelIndex | None, feeds: Feeds, request: BlameRequest
) -> CheckReport:
    """Add to a report the layers that make most noise at the worst output, if requested or if a gate is missed."""
    missed = any(gate.name in FIND_LAYERS and not gate.passed for gate in report.gates)
    if baseline is None or not (missed or request.always):
        return report
    worst = report.worst_output.name if report.worst_output is not None else None
    try:
        blame = _blame(index, baseline, feeds, worst, request)
    except QdqError as error:
        blame = BlameReport(problem=error.message)
    return replace(report, blame=blame)


def _blame(
    index: ModelIndex, baseline: ModelIndex, feeds: Feeds, worst: str | None, request: BlameRequest
) -> BlameReport:
    counterparts = {after: before for before, after in match(baseline.view, index.view)[0].items()}
    weights = _float_weights(index, baseline)
    switches = add_switches(index, weights, tuple(other_constants(counterparts, index, baseline)))
    if not switches.layers:
        left = f": {switches.left_out[0]}" if switches.left_out else ""
        return BlameReport(problem=f"no pair can be switched{left}", left_out=switches.left_out)
    with MaskedRuns(switches, [dict(sample) for sample in feeds.first(SAMPLES)]) as runs:
        budget = SearchBudget(RUNS, max(LEAST_SHARE, min(1.5 / len(switches.layers), 0.5)), NAMED)
        found = rank_noise(switches.layers, runs, budget, worst, request.tick)
        if found is None:
            return BlameReport(problem="no float output can be compared", left_out=switches.left_out)
        ranking, layers = _renamed(found, switches.layers, counterparts)
        return BlameReport(
            output=found.output,
            whole_db=finite_db(found.whole_db),
            samples=len(runs.samples),
            runs=runs.runs,
            layers=blamed_layers(ranking, layers, baseline),
            rest_share=round(found.rest, 4),
            left_out=switches.left_out,
            float_db=_float_db(found.output, runs, baseline),
            causes=_causes(switches, runs, found.output, request.clipping),
            calibrator=request.calibrator,
        )


def _causes(
    switches: QdqSwitches, runs: MaskedRuns, output: str, clipping: Mapping[QdqNode, float]
) -> tuple[NoiseCause, ...]:
    """Measure the output with each part of the quantization undone, and with finer scales of weights."""
    clipped, coarse = "clipping activations", "per-tensor weights"
    parts: dict[str, list[int]] = {}
    for number, switch in enumerate(switches.switches):
        names = (switch.kind, clipped if switch.source in clipping else "", coarse if switch.per_channel else "")
        for name in filter(None, names):
            parts.setdefault(name, []).append(number)
    found = []
    for name, numbers in parts.items():
        runs.switches = switches.per_channel() if name == coarse else switches
        undone_db = sqnr_with(runs, output, {} if name == coarse else dict.fromkeys(numbers))
        sites = {switches.switches[number].source for number in numbers}
        share = max((share for entry, share in clipping.items() if name == clipped and entry in sites), default=0.0)
        found.append((undone_db, NoiseCause(name, len(sites), finite_db(undone_db), round(share, 6))))
    runs.switches = switches
    return tuple(cause for _, cause in sorted(found, key=lambda each: -each[0]))


def _float_weights(index: ModelIndex, baseline: ModelIndex) -> Callable[[QdqNode], Array | None]:
    matcher = BaselineMatcher(baseline.view, index.view)

    def weight(entry: QdqNode) -> Array | None:
        for candidate in matcher.of(index.qdq, entry):
            found = baseline.constants.readable(candidate) if baseline.is_constant(candidate) else None
            if found is not None and baseline.is_float(candidate):
                return found
        return None

    return weight


def _renamed(
    found: NoiseRanking, every: Iterable[Layer], counterparts: Mapping[NodeView, NodeView]
) -> tuple[NoiseRanking, tuple[Layer, ...]]:
    """Return the layers with the nodes of the float model, because options of ``quantize`` name those."""
    layers = {each: replace(each, nodes=tuple(counterparts.get(node, node) for node in each.nodes)) for each in every}
    ranked = tuple(replace(each, layer=layers[each.layer]) for each in found.layers)
    return replace(found, layers=ranked), tuple(layers.values())


def _float_db(output: str, runs: MaskedRuns, baseline: ModelIndex) -> float | None:
    """Return the SQNR of an output against the baseline, with all pairs off; None if the output is exact."""
    error = AccumulatedError()
    with open_session(baseline.model, plan_split(baseline)) as session:
        for number, sample in enumerate(runs.samples):
            error.add(session.run(sample, [output])[output], runs.expected(number)[output])
    decibels = error.sqnr_db
    return None if decibels is None or decibels == math.inf else round(decibels, 4)
