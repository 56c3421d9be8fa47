"""Refuse a float model whose task metric has nothing to lose, and say why a limit was missed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from qdqtool.accuracy.layers.layer_runs import LayerRuns
from qdqtool.accuracy.layers.metric_runs import MetricRuns
from qdqtool.accuracy.layers.output_noise import WORST_DB
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.metric_data import upwards
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import GateError, UsageError


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
