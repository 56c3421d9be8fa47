"""Quantize so that a task metric loses little: find the layers that stay in float, and prove the result.

Noise at the outputs orders the layers: the states of the search by noise are the candidates. The metric decides where
to stop. It is measured on samples that may choose, in the session of the search. The model of the state that is found
is measured on samples that chose nothing; where it loses more, the next states are tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from qdqtool.accuracy.layers.layer_metric import MetricRuns
from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.output_noise import WORST_DB
from qdqtool.accuracy.layers.search import CURVE_STEP_DB
from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal, worst_db
from qdqtool.accuracy.search.attempt import Attempt, Attempts
from qdqtool.accuracy.search.goal_report import MetricGoal, Settled, curve_of, goal_report, told_levels
from qdqtool.accuracy.search.goal_trials import Choosing, Reached, Trial, Trials, first_that, metric_of
from qdqtool.accuracy.search.metric_data import CHOOSE, MEASURE, Part, refuse_coarse, upwards
from qdqtool.accuracy.search.search_curve import Known, SearchCurve, curve_states
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import GateError, UsageError
from qdqtool.models.graph.model import Model
from qdqtool.quantization.preparation.plan_inputs import PlanInputs


@dataclass(frozen=True, slots=True)
class Best:
    """The model that loses least of those that no limit chose.

    Attributes:
        levels: How many layers left the quantized format, in words.
        worst_db: SQNR of its worst output, the lower one of choosing and of measuring samples.
        loss: Loss of its metric, the larger one of both.
    """

    levels: str
    worst_db: float
    loss: float


def refuse_chance(name: str, chance: str | None) -> None:
    """Refuse a float model that has nothing to lose.

    Raises:
        UsageError: It is no better than chance.
    """
    if chance is not None:
        raise UsageError(
            f"--max-metric-loss shows nothing: {name} of the float model is at chance: {chance}",
            hint="give the labels of these samples, or more samples",
        )


def metric_missed(goal: AccuracyGoal, best: Best, layers: LayerRuns, runs: MetricRuns, reference: Score) -> GateError:
    """Return the error of a goal that no model keeps.

    Args:
        goal: The goal, with a limit of the metric.
        best: The best model.
        layers: The session.
        runs: The metric in it, on the choosing samples.
        reference: The score of the float model on them.
    """
    limit, measure = goal.max_metric_loss, runs.measure
    assert limit is not None
    settings = (layers.of_kind(constants=each) for each in (False, True))
    scores = (runs.score(setting, "the model with weights or activations in float") for setting in settings)
    weights, activations = (measure.loss(score.value, reference.value) for score in scores)
    # A NaN is the largest loss.
    kind = "activations" if not activations <= weights else "weights"
    unit = f" {measure.loss_unit}" if measure.loss_unit else ""
    noise = "" if goal.min_sqnr_db is None else f", with {best.worst_db:.1f} dB at the worst output"
    both = "" if goal.min_sqnr_db is None else f" and {goal.min_sqnr_db:g} dB"
    hint = "more calibration data, or another quantize mode"
    kept = _kept(goal, best)
    return GateError(
        f"no quantized model was found that keeps a loss of {measure.name} of at most {limit:g}{unit}{both}: with "
        f"{best.levels} it loses {best.loss:.3g}{unit}{noise}. "
        f"The {kind} limit it: a loss of {weights:.3g}{unit} with weights alone quantized, "
        f"{activations:.3g}{unit} with activations alone",
        hint=hint if kept is None else f"`{kept}`; or {hint}",
    )


def _kept(goal: AccuracyGoal, best: Best) -> str | None:
    """Return the options of a goal that the best model keeps; None where it keeps none."""
    assert goal.max_metric_loss is not None
    if not math.isfinite(best.loss) or best.worst_db <= -WORST_DB:
        return None
    loss = goal.max_metric_loss if best.loss <= goal.max_metric_loss else upwards(best.loss)
    options = f"--max-metric-loss {loss:g}"
    if goal.min_sqnr_db is None or best.worst_db >= goal.min_sqnr_db:
        return options
    return f"--min-sqnr {math.floor(best.worst_db)} {options}"


TRIALS = 5
"""Models that are made of what the choosing samples found, before samples that measure choose among all states."""


def reach_metric_goal(attempts: Attempts, first: Attempt, ready: Model, goal: AccuracyGoal) -> Reached:
    """Return the cheapest model that was found in which the task metric, and the SQNR if it has a limit, keep the goal.

    Args:
        attempts: Makes the models, and measures the metric of each.
        first: The model with every layer quantized.
        ready: The model that plans are made for.
        goal: The goal, with a limit of the metric.

    Raises:
        GateError: No model keeps it.
        UsageError: The samples cannot show such a loss, or the float model is no better than chance.
    """
    inputs, measurement = attempts.steps.inputs, attempts.steps.metric
    assert inputs.choosing is not None
    assert measurement is not None
    trials = Trials(attempts, first, goal)
    measured = metric_of(first)
    refuse_chance(measured.name, measured.baseline_chance)
    finer = attempts.finer(first)
    made = LayerRuns.of(ready, first.planned.plan, inputs.prepared, inputs.choosing, finer=finer)
    with made as layers, layers.kept_in(goal.sensitivity_file):
        runs = MetricRuns.of(measurement.metric, layers.masked, layers.runs, inputs.choosing)
        choosing = Choosing(layers.search(), runs, goal, runs.score_float())
        refuse_chance(measured.name, choosing.reference.chance)
        assert goal.max_metric_loss is not None
        parts = _parts(inputs, choosing.reference.predictions, measured.predictions)
        refuse_coarse(goal.max_metric_loss, runs.measure, parts)
        found = _searched(trials, choosing)
        if found is None:
            raise metric_missed(goal, _best(trials, choosing), layers, runs, choosing.reference)
        if goal.whole_curve:
            choosing.search.go_on(-math.inf)
        curve = curve_of(choosing.search)
        states = _told_states(goal, found.step, trials, choosing)
        if not found.step.share:
            return Reached(first, curve=curve, search=states)
        without = worst_db(first.measured.accuracy)
        settled = Settled(found.step, without, found.worst_db, _told(goal, found, trials, choosing))
        report = goal_report(choosing.search, settled, goal.min_sqnr_db, layers, curve)
        return Reached(found.attempt, report, curve, states)


def _told_states(goal: AccuracyGoal, chosen: Step, trials: Trials, choosing: Choosing) -> SearchCurve:
    known = {state: Known(metric_loss=loss) for state, loss in choosing.losses.items()}
    for state, trial in trials.made.items():
        measured = math.inf if trial.worst_db is None else trial.worst_db
        known[state] = replace(known.get(state, Known()), measured_db=measured, measured_loss=trial.loss)
    return SearchCurve(
        min_sqnr_db=goal.min_sqnr_db,
        max_metric_loss=goal.max_metric_loss,
        metric=choosing.runs.measure.name,
        loss_unit=choosing.runs.measure.loss_unit,
        samples=len(choosing.search.runs.samples),
        states=curve_states(choosing.search, chosen, known),
    )


def _parts(inputs: PlanInputs, choosing: int, measuring: int) -> tuple[Part, Part]:
    """Return the parts of the data with their numbers of predictions."""
    assert inputs.choosing is not None
    assert inputs.measuring is not None
    held = inputs.measuring.held_back
    return (
        Part(CHOOSE, len(inputs.choosing), choosing),
        Part(MEASURE, len(inputs.measuring.feeds), measuring, held_back=held),
    )


def _searched(trials: Trials, choosing: Choosing) -> Trial | None:
    above_db = -math.inf
    for _ in range(TRIALS):
        step = choosing.cheapest(above_db)
        if step is None:
            break
        if trials.keeps(step):
            return trials.at(step)
        above_db = step.worst_db + CURVE_STEP_DB
    return _measured(trials, choosing)


def _measured(trials: Trials, choosing: Choosing) -> Trial | None:
    """Return the cheapest state that keeps the goal on both; the samples that measure choose among all states here."""
    while choosing.go_on():
        pass

    def keeps(step: Step) -> bool:
        return choosing.keeps(step) and trials.keeps(step)

    states = choosing.search.frontier()
    return trials.at(first_that(states, keeps)) if keeps(states[-1]) else None


def _best(trials: Trials, choosing: Choosing) -> Best:
    """Return what the model with all layers quantized keeps, or that with the fewest, where that loses less."""
    states = choosing.search.frontier()
    known = [
        Best(
            levels=told_levels(step, choosing.search),
            worst_db=min(step.worst_db, math.inf if trial.worst_db is None else trial.worst_db),
            loss=max(choosing.loss(step), trial.loss),
        )
        for step in (states[0], states[-1])
        if (trial := trials.at(step))
    ]
    return min(known, key=lambda each: math.inf if math.isnan(each.loss) else each.loss)


def _told(goal: AccuracyGoal, found: Trial, trials: Trials, choosing: Choosing) -> MetricGoal:
    measure, measured = choosing.runs.measure, metric_of(found.attempt)
    without = metric_of(trials.first).loss
    assert goal.max_metric_loss is not None
    assert without is not None
    return MetricGoal(
        name=measure.name,
        output=measure.output,
        loss_unit=measure.loss_unit,
        max_loss=goal.max_metric_loss,
        loss_without=without,
        loss=found.loss,
        predictions=measured.predictions,
        choosing_loss=choosing.loss(found.step),
        choosing_predictions=choosing.reference.predictions,
        models=len({((), ()), *trials.made}),
    )
