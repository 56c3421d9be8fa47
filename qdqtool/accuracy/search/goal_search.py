"""Find the layers that must leave the quantized format for an accuracy target, and measure the resulting model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from qdqtool.accuracy.layers.layer import Layer, nodes_of
from qdqtool.accuracy.layers.layer_runs import SAMPLES, LayerRuns, searched_samples
from qdqtool.accuracy.layers.masked_runs import MetricRuns
from qdqtool.accuracy.layers.prediction import SearchState
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.accuracy.search.candidate import Candidate, CandidateFactory
from qdqtool.accuracy.search.goal import Goal, SearchOutcome, StateMeasurement, find_cheapest, metric_of
from qdqtool.accuracy.search.goal_report import CurvePoint, CurveState, FloatLayer, GoalReport, MetricGoal, SearchCurve
from qdqtool.accuracy.search.metric_goal import MetricLossGoal, refuse_chance
from qdqtool.accuracy.search.sqnr_goal import SqnrGoal
from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.numerics.noise import WORST_DB


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A model that keeps the goal.

    Attributes:
        candidate: The model.
        report: How the model was found; None if every layer is quantized.
        curve: The states that the search measured.
        search: The same states with every measurement; None without a search.
    """

    candidate: Candidate
    report: GoalReport | None = None
    curve: tuple[CurvePoint, ...] = ()
    search: SearchCurve | None = None


def reach_goal(factory: CandidateFactory, first: Candidate, ready: Model, limits: AccuracyGoal) -> SearchResult:
    """Return the cheapest model found that keeps the accuracy target.

    Raises:
        GateError: No model keeps the target.
        UsageError: There are no samples to measure with, the samples cannot show such a loss of a metric, or the float
            model is no better than chance.
    """
    inputs = factory.steps.inputs
    if inputs.choosing is None:
        raise UsageError(
            "there are no samples to measure the requested accuracy on",
            hint="`--calib-data DATA`, also where weights alone are quantized",
        )
    first_db, count = worst_db(first.measured.accuracy), SAMPLES
    if limits.max_metric_loss is not None:
        refuse_chance(metric_of(first).name, metric_of(first).baseline_chance)
    elif limits.is_kept(first_db, -math.inf) and not limits.whole_curve:
        return SearchResult(first)
    else:
        count = searched_samples(len(inputs.choosing))
    secondary = factory.secondary_plan(first)
    opened = LayerRuns.of(ready, first.planned.plan, inputs.prepared, inputs.choosing, count, secondary)
    with opened as session, session.kept_in(limits.sensitivity_file):
        goal = _opened(limits, factory, first, session)
        found = find_cheapest(goal)
        if found is None:
            raise goal.missed()
        if limits.whole_curve:
            goal.search.go_on(goal.curve_from_db)
        return _result(goal, found)


def _opened(limits: AccuracyGoal, factory: CandidateFactory, first: Candidate, session: LayerRuns) -> Goal:
    """Return the goal with its search; errors as :func:`reach_goal`."""
    search, tick, inputs = session.search(), factory.tick, factory.steps.inputs
    if limits.max_metric_loss is None:
        assert limits.min_sqnr_db is not None
        if tick is not None:
            session.runs.tick = lambda done: tick(min(done, search.limit), search.limit)
        least = limits.min_sqnr_db
        return SqnrGoal(limits, factory, first, session, search, curve_from_db=least, target_db=least)
    assert factory.metric is not None
    assert inputs.choosing is not None
    runs = MetricRuns.of(factory.metric.metric, session.runs, inputs.choosing)
    goal = MetricLossGoal(limits, factory, first, session, search, runs=runs, reference=runs.score_float())
    goal.require_resolution()
    return goal


def _result(goal: Goal, found: SearchOutcome) -> SearchResult:
    metric, points = goal.metric_report(found), tuple(map(_point, goal.search.frontier()))
    curve = _curve(goal, found.step, metric)
    if not found.step.share:
        return SearchResult(goal.first, curve=points, search=curve)
    assert goal.best is not None
    return SearchResult(goal.best, _report(goal, found, metric, points), points, curve)


def _report(goal: Goal, found: SearchOutcome, metric: MetricGoal | None, points: tuple[CurvePoint, ...]) -> GoalReport:
    search, runs, step = goal.search, goal.session.runs, found.step
    shares, secondary = dict(zip(search.layers, search.shares, strict=True)), search.fallback.shares
    return GoalReport(
        min_sqnr_db=goal.limits.min_sqnr_db,
        layers=len(search.layers),
        left=_layers(step.layers, shares),
        float_share=round(math.fsum(shares[layer] for layer in step.layers), 4),
        worst_without_db=worst_db(goal.first.measured.accuracy),
        worst_db=found.worst_db,
        samples=len(runs.samples),
        runs=runs.runs,
        curve=points,
        metric=metric,
        fallback=search.fallback.name or None,
        finer=_layers(step.fallback, secondary),
        finer_share=round(math.fsum(secondary[layer] for layer in step.fallback), 4),
    )


def _layers(layers: Iterable[Layer], shares: Mapping[Layer, float]) -> tuple[FloatLayer, ...]:
    return tuple(
        FloatLayer(
            node=layer.leader.label,
            op_type=layer.leader.op_type,
            nodes=tuple(node.label for node in layer.nodes),
            share=round(shares[layer], 4),
        )
        for layer in layers
    )


def _point(step: SearchState) -> CurvePoint:
    return CurvePoint(
        layers_in_float=len(step.layers),
        quantized_share=round(1 - step.share, 4),
        worst_sqnr_db=None if step.worst_db == math.inf else round(step.worst_db, 2),
        nodes=tuple(node.label for node in nodes_of(step.layers)),
        layers_in_fallback=len(step.fallback),
        fallback_nodes=tuple(node.label for node in nodes_of(step.fallback)),
    )


def _curve(goal: Goal, chosen: SearchState, metric: MetricGoal | None) -> SearchCurve:
    """Return the best states, the state with every layer quantized, and the chosen state, the cheapest first."""
    # A search begins with every layer quantized.
    states = {step.key: step for step in (goal.search.steps[0], chosen, *goal.search.frontier())}
    measured = goal.measurements()
    return SearchCurve(
        min_sqnr_db=goal.limits.min_sqnr_db,
        max_metric_loss=goal.limits.max_metric_loss,
        metric="" if metric is None else metric.name,
        loss_unit="" if metric is None else metric.loss_unit,
        samples=len(goal.session.runs.samples),
        states=tuple(
            _state(step, measured.get(step.key, StateMeasurement()), is_chosen=step.key == chosen.key)
            for step in sorted(states.values(), key=lambda step: (step.share, step.worst_db))
        ),
    )


def _state(step: SearchState, measured: StateMeasurement, *, is_chosen: bool) -> CurveState:
    return CurveState(
        layers_in_float=len(step.layers),
        layers_in_fallback=len(step.fallback),
        quantized_share=round(1 - step.share, 4),
        worst_sqnr_db=_figure(step.worst_db),
        measured_sqnr_db=None if measured.measured_db is None else _figure(measured.measured_db),
        metric_loss=measured.metric_loss,
        measured_metric_loss=measured.measured_loss,
        finite=step.worst_db > -WORST_DB and measured.measured_db != -math.inf,
        chosen=is_chosen,
    )


def _figure(decibels: float) -> float | None:
    return round(decibels, 2) if -WORST_DB < decibels < math.inf else None
