"""States of a search that a task metric calls the cheapest, and errors of limits that no model keeps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from qdqtool.accuracy.layers.fallback import NO_FALLBACK, Fallback
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.prediction import SearchState
from qdqtool.accuracy.layers.search import CURVE_STEP_DB, FloatSearch
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.goal import SearchOutcome
from qdqtool.accuracy.search.metric_goal import Best, MetricLossGoal, metric_missed, refuse_chance
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.errors import GateError, UsageError
from qdqtool.models.plan import Placement
from qdqtool.numerics.noise import WORST_DB, Noise

FINER: Placement = object()  # type: ignore[assignment]
"""Stands for a pair in the fallback format."""

PART = 0.01
"""The part of its noise, and of its loss, that a site makes in the fallback format."""

REFERENCE = 50.0


@dataclass
class Runs:
    """A model of one site a layer. Noise is the sum of that of the sites, and so is the loss of the metric."""

    noises: Sequence[float]
    losses: Sequence[float]
    samples: Sequence[Mapping[str, np.ndarray]] = ({},)
    scored: list[str] = field(default_factory=list)

    @property
    def switches(self) -> "Runs":
        return self

    @property
    def all_float(self) -> dict[int, None]:
        return dict.fromkeys(range(len(self.noises)))

    @property
    def sites(self) -> Sequence[float]:
        return self.noises

    @property
    def measure(self) -> "Runs":
        return self

    def loss(self, value: float, reference: float) -> float:
        return reference - value

    def score(self, setting: Mapping[int, object], model: str) -> Score:
        self.scored.append(model)
        return Score(value=REFERENCE - self.sum(self.losses, setting), predictions=1)

    def noise(self, setting: Mapping[int, object], numbers: Sequence[int] | None = None) -> Noise:
        del numbers
        return Noise(np.array([[1.0]]), np.array([[self.sum(self.noises, setting)]]))

    def sum(self, each: Sequence[float], setting: Mapping[int, object]) -> float:
        parts = (1.0 if at not in setting else PART if setting[at] is FINER else 0.0 for at in range(len(each)))
        return math.fsum(part * value for part, value in zip(parts, each, strict=True) if part)


def choosing(runs: Runs, goal: AccuracyGoal, *, fallback: bool = False) -> MetricLossGoal:
    layers = [Layer((), (number,)) for number in range(len(runs.noises))]
    share = 1 / len(layers)
    finer = Fallback("fine", "0c", dict.fromkeys(range(len(layers)), FINER), dict.fromkeys(layers, share / 4))
    search = FloatSearch(layers, [share] * len(layers), runs, 1, 10**6, fallback=finer if fallback else NO_FALLBACK)  # type: ignore[arg-type]
    return MetricLossGoal(
        limits=goal,
        factory=None,  # type: ignore[arg-type]
        first=None,  # type: ignore[arg-type]
        session=None,  # type: ignore[arg-type]
        search=search,
        runs=runs,  # type: ignore[arg-type]
        reference=Score(value=REFERENCE, predictions=1),
    )


def state(made: MetricLossGoal, layers: Sequence[int], fallback: Sequence[int] = ()) -> SearchState:
    every = made.search.layers
    return SearchState(tuple(every[at] for at in layers), 0.5, 30.0, 0.0, tuple(every[at] for at in fallback))


def test_states_with_the_same_float_layers_and_other_fallback_layers_have_losses_of_their_own() -> None:
    runs = Runs([1e-2, 1e-3, 1e-4], [4.0, 2.0, 1.0])
    made = choosing(runs, AccuracyGoal(max_metric_loss=1.5), fallback=True)
    one, other, none = state(made, [2], [0]), state(made, [2], [1]), state(made, [2])
    for _ in range(2):
        assert made.loss(one) == pytest.approx(4 * PART + 2)
        assert made.loss(other) == pytest.approx(4 + 2 * PART)
        assert made.loss(none) == pytest.approx(6)
    # Each state is run once, and messages tell them apart from the float model.
    assert runs.scored == ["the model with 1 of 3 layers in float and 1 in fine"] * 2 + [
        "the model with 1 of 3 layers in float and 0 in fine"
    ]
    assert [made.is_expected_to_keep(each) for each in (one, other, state(made, [], [0, 1, 2]))] == [False, False, True]


@pytest.mark.parametrize("fallback", [False, True])
@pytest.mark.parametrize("limit", [0.02, 0.5, 3.0, 9.0, 100.0])
def test_the_cheapest_state_is_the_first_that_keeps_the_limit(limit: float, *, fallback: bool) -> None:
    """The loss falls with the noise, so bisection has to find what trying all states finds."""
    noises = [10.0**-power for power in (2, 3, 2.5, 4, 3.5, 5)]
    runs = Runs(noises, [1000 * each for each in noises])
    made = choosing(runs, AccuracyGoal(max_metric_loss=limit), fallback=fallback)
    found = made.propose()
    assert found is not None
    states = made.search.frontier()
    losses = [runs.sum(runs.losses, made.search.setting(each)) for each in states]
    assert losses == sorted(losses, reverse=True)
    assert found == next(each for each, loss in zip(states, losses, strict=True) if loss <= limit)


def test_a_state_above_a_given_sqnr_has_that_sqnr_at_least() -> None:
    noises = [1e-2, 1e-3, 1e-4, 1e-5]
    made = choosing(Runs(noises, [0.0] * 4), AccuracyGoal(max_metric_loss=1))
    known = []
    while (found := made.propose()) is not None:
        assert found.worst_db >= made.above_db
        known.append(len(found.layers))
        made.ask_more(SearchOutcome(found, None, 0.0))
        assert made.above_db == found.worst_db + CURVE_STEP_DB
    # Nothing is lost anywhere: each is the cheapest of its noise, and the float model is none of them.
    assert known == [0, 1, 2, 3]


def test_no_state_keeps_a_limit_that_every_layer_breaks() -> None:
    made = choosing(Runs([1e-2, 1e-3], [5.0, 5.0]), AccuracyGoal(max_metric_loss=1))
    assert made.propose() is None


def test_a_limit_of_noise_is_kept_beside_that_of_the_metric() -> None:
    runs = Runs([1e-2, 1e-3, 1e-4], [0.0, 0.0, 0.0])
    found = choosing(runs, AccuracyGoal(max_metric_loss=1, min_sqnr_db=35)).propose()
    assert len(found.layers) == 2
    # The metric takes a run of every sample: states of too much noise are not run for it.
    assert "the model with 0 of 3 layers in float" not in runs.scored


def test_a_state_that_makes_infinity_keeps_no_limit_whatever_the_metric_says() -> None:
    made = choosing(Runs([1e-4, math.inf, 1e-4], [0.0] * 3), AccuracyGoal(max_metric_loss=1))
    found = made.propose()
    assert made.search.steps[0].worst_db == -WORST_DB
    assert found.layers == (made.search.layers[1],)


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
    [(3.0, 1.0, "weights"), (1.0, 3.0, "activations"), (1.0, math.nan, "activations"), (math.inf, 1.0, "weights")],
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
    with pytest.raises(UsageError, match="m of the float model is no better than guessing: 1 of 9 is right"):
        refuse_chance("m", "1 of 9 is right")
