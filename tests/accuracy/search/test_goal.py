"""States of a search: each is made once, and the report agrees with models that ONNX Runtime runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from accuracy.search.test_metric_goal import lost
from accuracy.search.test_metric_goal import quantized as quantized_for_metric
from accuracy.search.test_metric_goal import stock as stock  # noqa: PLC0414 -- a fixture
from accuracy.search.test_sqnr_goal import COUNT, chain, folder_with, kept, quantized, rows

from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.prediction import SearchState, StateKey
from qdqtool.accuracy.report import Accuracy, MetricResult, OutputAccuracy
from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.goal import Goal, SearchOutcome, StateMeasurement, first_that, metric_of
from qdqtool.accuracy.search.goal_report import CurveState, SearchCurve
from qdqtool.errors import GateError
from qdqtool.jobs.quantize_report import QuantizeReport

LAYERS = [Layer((), (number,)) for number in range(3)]


def candidate(loss: float, *, finite: bool = True) -> SimpleNamespace:
    told = {"name": "m", "unit": "", "loss_unit": "", "predictions": 1, "value": -loss, "baseline": 0.0, "loss": loss}
    metric = MetricResult(**told, output=None, saved=None, saved_loss=None)
    outputs = (OutputAccuracy(name="y", sqnr_db=20.0, exact=False, finite=finite),)
    return SimpleNamespace(measured=SimpleNamespace(accuracy=Accuracy(samples=1, outputs=outputs, metric=metric)))


class CandidateFactory:
    """Makes models that lose 4, 2 and 1 for the quantized layers, and a tenth of that in the fallback."""

    def __init__(self) -> None:
        self.made: list[SearchState] = []

    def with_float_layers(self, step: SearchState, first: object) -> SimpleNamespace:
        del first
        self.made.append(step)
        parts = [0.0 if layer in step.layers else 0.1 if layer in step.fallback else 1.0 for layer in LAYERS]
        return candidate(4 * parts[0] + 2 * parts[1] + parts[2], finite=LAYERS[2] not in step.layers)


@dataclass(slots=True, kw_only=True)
class Asked(Goal):
    """A goal that proposes nothing by itself."""

    def propose(self) -> SearchState | None:
        raise NotImplementedError

    def ask_more(self, found: SearchOutcome) -> None:
        raise NotImplementedError

    def all_states(self) -> Sequence[SearchState]:
        raise NotImplementedError

    def missed(self) -> GateError:
        raise NotImplementedError

    def measurements(self) -> Mapping[StateKey, StateMeasurement]:
        raise NotImplementedError

    def metric_report(self, found: SearchOutcome) -> None:
        raise NotImplementedError


def goal_of(factory: CandidateFactory, limits: AccuracyGoal) -> Goal:
    return Asked(limits=limits, factory=factory, first=candidate(7.0), session=None, search=None)  # type: ignore[arg-type]


def state(layers: list[int], fallback: list[int], share: float = 0.5) -> SearchState:
    return SearchState(tuple(LAYERS[at] for at in layers), share, 25.0, 0.0, tuple(LAYERS[at] for at in fallback))


def test_states_with_the_same_float_layers_and_other_fallback_layers_are_different_models() -> None:
    factory = CandidateFactory()
    made = goal_of(factory, AccuracyGoal(max_metric_loss=2))
    one, other, none = state([1], [0]), state([1], [2]), state([1], [])
    for _ in range(2):
        assert [made.measure(each).loss for each in (one, other, none)] == pytest.approx([1.4, 4.1, 5.0])
        assert [made.keeps_state(each) for each in (one, other, none)] == [True, False, False]
    assert factory.made == [one, other, none]


def test_only_the_last_model_that_keeps_the_goal_stays_in_memory() -> None:
    made = goal_of(CandidateFactory(), AccuracyGoal(max_metric_loss=5))
    assert made.best is None
    assert not made.keeps_state(state([2], []))
    assert made.best is None
    for step in (state([0, 1], []), state([0], [])):
        assert made.keeps_state(step)
        assert made.best is not None
        assert metric_of(made.best).loss == made.measure(step).loss


def test_the_state_with_all_layers_quantized_is_the_model_that_is_there() -> None:
    factory = CandidateFactory()
    made = goal_of(factory, AccuracyGoal(max_metric_loss=7))
    assert made.keeps_state(state([], [], 0.0))
    assert made.best is made.first
    assert factory.made == []


def test_a_model_that_makes_infinity_keeps_no_limit_whatever_its_metric_says() -> None:
    made = goal_of(CandidateFactory(), AccuracyGoal(max_metric_loss=100))
    assert [made.keeps_state(state([0], [])), made.keeps_state(state([2], []))] == [True, False]


@pytest.mark.parametrize("count", range(1, 18))
def test_bisection_finds_the_first_state_with_few_questions(count: int) -> None:
    states = [SearchState((), at / count, float(at), 0.0) for at in range(count)]
    for first in range(count):
        asked: list[SearchState] = []

        def keeps(step: SearchState, first: int = first, asked: list[SearchState] = asked) -> bool:
            asked.append(step)
            return step.worst_db >= first

        assert first_that(states, keeps) is states[first]
        assert len(asked) <= math.ceil(math.log2(count)) + 1


OTHER = rows(count=6, seed=77)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_with(tmp_path, chain(5, uneven=40), rows(count=COUNT), OTHER)


def searched(report: QuantizeReport) -> SearchCurve:
    assert report.search is not None
    return report.search


def chosen(curve: SearchCurve) -> CurveState:
    (found,) = (state for state in curve.states if state.chosen)
    return found


@pytest.mark.parametrize("whole", [True, False])
def test_the_chosen_state_and_the_first_one_have_what_their_models_keep(folder: Path, whole: bool) -> None:
    validation = folder / "v.npz"
    quantized(folder, None, "all.onnx", validation_data=validation)
    low = kept(folder, "all.onnx", OTHER)
    report = quantized(folder, low + 2, curve=whole, validation_data=validation)
    curve = searched(report)

    assert curve.min_sqnr_db == low + 2
    assert (curve.max_metric_loss, curve.metric) == (None, "")
    first, written = curve.states[0], chosen(curve)
    assert (first.layers_in_float, first.quantized_share, first.chosen) == (0, 1.0, False)
    assert first.measured_sqnr_db == pytest.approx(low, abs=0.006)
    assert written.measured_sqnr_db == pytest.approx(kept(folder, "q.onnx", OTHER), abs=0.006)
    assert written.layers_in_float == len(report.goal.left)
    assert written.quantized_share == pytest.approx(1 - report.goal.float_share, abs=2e-4)
    assert curve.samples == report.goal.samples
    shares = [state.quantized_share for state in curve.states]
    assert shares == sorted(shares, reverse=True)
    assert all(state.finite for state in curve.states)


def test_the_states_have_the_figures_of_the_curve(folder: Path) -> None:
    report = quantized(folder, 40.0, curve=True)

    points = {(point.layers_in_float, point.quantized_share, point.worst_sqnr_db) for point in report.goal.curve}
    states = {(state.layers_in_float, state.quantized_share, state.worst_sqnr_db) for state in searched(report).states}
    assert points <= states
    assert len(states) <= len(points) + 1


def test_a_goal_that_the_first_model_keeps_has_a_curve_only_where_one_is_asked_for(folder: Path) -> None:
    low = kept(folder, quantized(folder, None, "all.onnx") and "all.onnx", OTHER)

    assert quantized(folder, low - 5).search is None
    assert quantized(folder, None).search is None
    report = quantized(folder, low - 5, curve=True)
    assert report.goal is None
    assert len(searched(report).states) > 1
    assert chosen(searched(report)) == searched(report).states[0]
    assert searched(report).min_sqnr_db == low - 5


def test_losses_of_a_metric_are_those_of_the_models(stock: Path, tmp_path: Path) -> None:
    quantized_for_metric(stock, tmp_path / "all.onnx", None)
    report = quantized_for_metric(stock, tmp_path / "q.onnx", AccuracyGoal(max_metric_loss=4))
    curve = searched(report)

    assert (curve.metric, curve.loss_unit, curve.max_metric_loss) == ("top-1", "percentage points", 4)
    assert curve.min_sqnr_db is None
    written = chosen(curve)
    assert written.measured_metric_loss == pytest.approx(lost(stock, tmp_path / "q.onnx", "v"))
    assert written.metric_loss == pytest.approx(report.goal.metric.choosing_loss)
    assert written.measured_sqnr_db == pytest.approx(report.goal.worst_db, abs=0.006)
    unmeasured = [state for state in curve.states if state.measured_metric_loss is None]
    assert all(state.measured_sqnr_db is None for state in unmeasured)
