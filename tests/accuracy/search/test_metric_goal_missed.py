"""Errors of limits that no model keeps, on losses that are written down."""

import math
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.metric_goal import Best, metric_missed, refuse_chance
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import GateError, UsageError
from qdqtool.numerics.noise import WORST_DB

FLOAT = 80.0


def missed(goal: AccuracyGoal, best: Best, *, weights: float = 3.0, activations: float = 1.0) -> GateError:
    """The error for a model that loses so much with one kind of pairs alone."""

    def of_kind(*, constants: bool) -> dict[str, bool]:
        # The setting without the pairs of weights has those of activations.
        return {"constants": constants}

    def score(setting: Mapping[str, bool], model: str) -> Score:
        del model
        return Score(value=FLOAT - (activations if setting["constants"] else weights), predictions=1)

    measure = SimpleNamespace(name="m", loss_unit="points", loss=lambda value, reference: reference - value)
    layers, runs = SimpleNamespace(of_kind=of_kind), SimpleNamespace(measure=measure, score=score)
    return metric_missed(goal, best, layers, runs, Score(value=FLOAT, predictions=1))  # type: ignore[arg-type]


LEVELS = "4 of 5 layers in float"


@pytest.mark.parametrize(
    ("weights", "activations", "kind"),
    [
        (3.0, 1.0, "weights"),
        (1.0, 3.0, "activations"),
        (1.0, math.nan, "activations"),
        (math.inf, 1.0, "weights"),
    ],
)
def test_what_loses_more_alone_limits_it(weights: float, activations: float, kind: str) -> None:
    goal = AccuracyGoal(max_metric_loss=1)
    message = missed(goal, Best(LEVELS, 30, 2.5), weights=weights, activations=activations).message
    assert f"with {LEVELS} it loses 2.5 points. The {kind} limit it" in message
    assert f"a loss of {weights:.3g} points with weights alone quantized" in message
    assert f"{activations:.3g} points with activations alone" in message


@pytest.mark.parametrize(
    ("goal", "best", "options"),
    [
        (AccuracyGoal(max_metric_loss=1), Best(LEVELS, 30, 2.3456), "--max-metric-loss 2.35"),
        (AccuracyGoal(max_metric_loss=1, min_sqnr_db=20), Best(LEVELS, 30, 2.5), "--max-metric-loss 2.5"),
        (AccuracyGoal(max_metric_loss=1, min_sqnr_db=40), Best(LEVELS, 30.9, 0.5), "--min-sqnr 30 --max-metric-loss 1"),
        (AccuracyGoal(max_metric_loss=1, min_sqnr_db=40), Best(LEVELS, 30.9, 2), "--min-sqnr 30 --max-metric-loss 2"),
    ],
)
def test_the_hint_names_limits_that_the_best_model_keeps(goal: AccuracyGoal, best: Best, options: str) -> None:
    assert missed(goal, best).hint == f"`{options}`; or more calibration data, or another quantize mode"
    words = options.split()
    given = dict(zip(words[::2], map(float, words[1::2]), strict=True))
    hinted = AccuracyGoal(
        max_metric_loss=given["--max-metric-loss"], min_sqnr_db=given.get("--min-sqnr", goal.min_sqnr_db)
    )
    assert hinted.is_kept(best.worst_db, best.loss)
    assert not goal.is_kept(best.worst_db, best.loss)


@pytest.mark.parametrize("best", [Best(LEVELS, 30, math.nan), Best(LEVELS, -WORST_DB, 2), Best(LEVELS, -math.inf, 2)])
def test_a_model_that_keeps_no_limit_gives_no_hint_to_paste(best: Best) -> None:
    hint = missed(AccuracyGoal(max_metric_loss=1), best).hint
    assert hint == "more calibration data, or another quantize mode"


def test_a_float_model_at_chance_is_refused() -> None:
    refuse_chance("m", None)
    with pytest.raises(UsageError, match="m of the float model is at chance: 1 of 9 is right"):
        refuse_chance("m", "1 of 9 is right")
