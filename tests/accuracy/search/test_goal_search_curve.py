"""What the report says of the states of a search, against models that ONNX Runtime runs."""

from pathlib import Path

import pytest
from accuracy.search.test_metric_goal import lost
from accuracy.search.test_metric_goal import quantized as quantized_for_metric
from accuracy.search.test_metric_goal import stock as stock  # noqa: PLC0414 -- a fixture
from accuracy.search.test_sqnr_goal import COUNT, chain, folder_with, kept, quantized, rows

from qdqtool.accuracy.search.accuracy_goal import AccuracyGoal
from qdqtool.accuracy.search.goal_report import CurveState, SearchCurve
from qdqtool.jobs.quantize_report import QuantizeReport

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
