"""Task metrics against scikit-learn and exact values, and what `check --metric` makes of them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from support.paths import ROOT
from support.small import make_model

from qdqtool.accuracy.checking.limits import Gates
from qdqtool.accuracy.checking.options import CheckOptions
from qdqtool.accuracy.checking.report import CheckReport, MetricResult
from qdqtool.accuracy.task_metrics import metrics
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.jobs.check import check_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

CLASSES = 7
TOP_1 = CheckOptions(metric="top-1")


def value(name: str, scores: np.ndarray, labels: np.ndarray) -> float:
    metric = metrics.get(name)
    return metric.value(metric.total(scores, labels) / labels.size)


def drawn(count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    return rng.normal(size=(count, CLASSES)).astype(np.float32) * 3, rng.integers(0, CLASSES, count)


def test_every_metric_is_found_by_its_file_name() -> None:
    assert metrics.names() == ("perplexity", "top-1")
    with pytest.raises(ArgumentError, match="did you mean 'top-1'"):
        metrics.get("top1")


def test_top_1_is_the_accuracy_of_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score

    scores, labels = drawn()
    assert value("top-1", scores, labels) == pytest.approx(100 * accuracy_score(labels, scores.argmax(axis=1)))
    assert value("top-1", np.ones((1, 3), np.float32), np.array([0])) == 100
    assert value("top-1", np.ones((1, 3), np.float32), np.array([1])) == 0


def test_perplexity_is_the_exponential_of_the_log_loss_of_scikit_learn() -> None:
    from sklearn.metrics import log_loss

    scores, labels = drawn()
    exact = scores.astype(np.float64)
    chances = np.exp(exact) / np.exp(exact).sum(axis=1, keepdims=True)
    assert value("perplexity", scores, labels) == pytest.approx(
        math.exp(log_loss(labels, chances, labels=range(CLASSES)))
    )


def test_perplexity_of_equal_scores_is_the_number_of_classes_and_large_scores_do_not_overflow() -> None:
    labels = np.arange(4)
    assert value("perplexity", np.full((4, 8), 5.0, np.float16), labels) == pytest.approx(8)
    assert value("perplexity", np.eye(4, dtype=np.float32) * 1e4, labels) == pytest.approx(1)
    assert value("perplexity", np.eye(4, dtype=np.float32) * -1e30, labels) == math.inf
    assert math.isnan(value("perplexity", np.full((4, 8), np.nan, np.float32), labels))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_score_that_is_not_finite_makes_the_perplexity_no_number(bad: float) -> None:
    scores, labels = np.zeros((2, 3), np.float32), np.array([0, 0])
    scores[1, 2] = bad
    assert math.isnan(value("perplexity", scores, labels))


def test_a_loss_is_in_percentage_points_or_in_percent_of_the_reference() -> None:
    assert metrics.get("top-1").loss(98.5, 99.0) == pytest.approx(0.5)
    assert metrics.get("perplexity").loss(3.7, 3.5) == pytest.approx(100 * 0.2 / 3.5)


# --- in check ---


def scores_model(weight: np.ndarray, batch: int | str = "n", outputs: int = 1) -> Model:
    """x[batch, 7] times a weight: ``s0``, and as often again as there are more outputs."""
    nodes = [helper.make_node("MatMul", ["x", "w"], [f"s{i}"]) for i in range(outputs)]
    shapes = {f"s{i}": (batch, CLASSES) for i in range(outputs)}
    return Model(make_model(nodes, {"x": (batch, CLASSES)}, shapes, {"w": weight.astype(np.float32)}))


EYE = np.eye(CLASSES)
WRONG = np.roll(EYE, 1, axis=1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Ten rows of which seven have their highest score at the label."""
    scores, _ = drawn(10)
    labels = scores.argmax(axis=1)
    labels[:3] = (labels[:3] + 1) % CLASSES
    np.savez(tmp_path / "d.npz", x=scores, labels=labels)
    return tmp_path / "d.npz"


def measured(model: Model, data: object, options: CheckOptions = TOP_1) -> MetricResult:
    return check_model(model, data=data, options=options).metric


def gates(report: CheckReport) -> dict[str, bool]:
    return {gate.name: gate.passed for gate in report.gates}


def test_the_model_is_measured_on_every_label(data) -> None:
    found = measured(scores_model(EYE), data)
    assert (found.name, found.output, found.predictions, found.value) == ("top-1", "s0", 10, pytest.approx(70))
    assert (found.baseline, found.loss, found.saved) == (None, None, None)


@pytest.mark.parametrize("batch", [1, 4, 10, 16])
def test_rows_that_only_fill_up_a_batch_are_not_counted(batch, data) -> None:
    found = measured(scores_model(EYE, batch), data)
    assert (found.predictions, found.value) == (10, pytest.approx(70))


def test_only_so_many_samples_are_measured(data) -> None:
    found = measured(scores_model(EYE), DataRequest(path=data, samples=3))
    assert (found.predictions, found.value) == (3, 0)


@pytest.mark.parametrize(("limit", "passed"), [(100.0, True), (1.0, False)])
def test_the_loss_against_the_baseline_is_a_gate(limit, passed, data) -> None:
    options = replace(TOP_1, gates=Gates(max_metric_loss=limit))
    report = check_model(scores_model(WRONG), baseline=scores_model(EYE), data=data, options=options)
    assert report.metric.baseline == pytest.approx(70)
    assert report.metric.loss == pytest.approx(70 - report.metric.value)
    assert gates(report)["max-metric-loss"] is passed
    assert any("max-metric-loss" in failure for failure in report.failures) is not passed


def test_a_better_model_has_a_negative_loss(data) -> None:
    options = replace(TOP_1, gates=Gates(max_metric_loss=0))
    report = check_model(scores_model(EYE), baseline=scores_model(WRONG), data=data, options=options)
    assert report.metric.loss is not None
    assert report.metric.loss < 0
    assert "of the baseline is no better than guessing: 3 of 10 predictions are right" in report.failures[-1]


def test_a_metric_that_is_no_number_keeps_no_limit(data) -> None:
    options = CheckOptions(metric="perplexity", gates=Gates(max_metric_loss=1e9))
    report = check_model(scores_model(EYE * np.nan), baseline=scores_model(EYE), data=data, options=options)
    assert not gates(report)["max-metric-loss"]


def test_one_label_for_each_position_of_a_sequence(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    x = rng.normal(size=(5, 6, CLASSES)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, labels=x.argmax(axis=-1).astype(np.int32))
    node = helper.make_node("Identity", ["x"], ["y"])
    model = Model(make_model([node], {"x": ("n", 6, CLASSES)}, {"y": ("n", 6, CLASSES)}, {}))
    found = measured(model, tmp_path / "d.npz")
    assert (found.predictions, found.value) == (30, 100)


def test_labels_lie_beside_the_samples_of_a_folder(tmp_path: Path) -> None:
    from sklearn.metrics import accuracy_score

    scores, labels = drawn(6)
    for number in range(3):
        rows = slice(2 * number, 2 * number + 2)
        np.savez(tmp_path / f"{number}.npz", x=scores[rows], labels=labels[rows])
    accuracy = 100 * accuracy_score(labels, scores.argmax(axis=1))
    assert measured(scores_model(EYE), tmp_path).value == pytest.approx(accuracy)


def test_of_several_outputs_one_is_named(data) -> None:
    model = scores_model(EYE, outputs=2)
    assert measured(model, data, CheckOptions(metric="top-1:s1")).output == "s1"
    with pytest.raises(UsageError, match="2 outputs: s0, s1") as caught:
        check_model(model, data=data, options=TOP_1)
    assert caught.value.hint == "name the one with the scores, for example: `--metric top-1:s0`"
    with pytest.raises(UsageError, match="'s2' is no output"):
        check_model(model, data=data, options=CheckOptions(metric="top-1:s2"))


SCORES, LABELS = drawn(10)
WRONG_LABELS = {
    "none": (None, "no labels for the metric", "key 'labels'"),
    "floats": (LABELS.astype(np.float32), "they must be integers", None),
    "too few": (LABELS[:9], "'labels' has 9 rows", None),
    "a scalar": (np.array(3), "is one number", None),
    "pickled": (np.array([None] * 10), "pickled Python objects", None),
    "too many each": (np.stack([LABELS, LABELS], axis=1), "one label for each row", None),
    "out of range": (np.where(LABELS == 2, 7, LABELS), "label 7 has no score", None),
    "negative": (LABELS - 9, "has no score", None),
}


@pytest.mark.parametrize("case", WRONG_LABELS)
def test_labels_that_do_not_fit_are_a_usage_error(case, tmp_path: Path) -> None:
    labels, message, hint = WRONG_LABELS[case]
    arrays = {"x": SCORES} if labels is None else {"x": SCORES, "labels": labels}
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(UsageError, match=message) as caught:
        check_model(scores_model(EYE), data=tmp_path / "d.npz", options=TOP_1)
    assert hint is None or hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("right", "predictions", "classes", "is_chance"),
    [
        (0, 540, 10, True),
        (60, 540, 10, True),
        (80, 540, 10, False),
        (530, 540, 10, False),
        (1, 1, 10, True),
        (1, 1, 1000, False),
        (4, 4, 2, True),
        (5, 5, 2, False),
        (7, 7, 1, True),
        (50_700, 100_000, 2, False),
    ],
)
def test_top_1_is_at_chance_where_guessing_gives_as_many(
    right: int, predictions: int, classes: int, is_chance: bool
) -> None:
    from scipy.stats import binom

    found = metrics.get("top-1").chance(100 * right / predictions, predictions, classes)
    assert (found is not None) is is_chance
    if found is not None:
        likely = float(binom.sf(right - 1, predictions, 1 / classes))
        assert found.endswith(f"with a probability of {likely:.2g}")


@pytest.mark.parametrize(("value", "is_chance"), [(3.7, False), (63.9, False), (64.0, True), (math.inf, True)])
def test_perplexity_is_at_chance_from_that_of_equal_probabilities_on(value: float, is_chance: bool) -> None:
    assert (metrics.get("perplexity").chance(value, 100, 64) is not None) is is_chance


def test_a_perplexity_that_is_no_number_is_at_chance() -> None:
    assert metrics.get("perplexity").chance(math.nan, 100, 64) is not None


@pytest.mark.parametrize("name", ["top-1", "perplexity"])
def test_a_model_passes_against_itself_only_with_labels_that_it_knows(name: str, tmp_path: Path) -> None:
    folder = ROOT / "sample_models" / ("digits_cnn" if name == "top-1" else "char_lm")
    with np.load(folder / "test.npz") as test:
        arrays = {key: test[key][:64] for key in test.files}
    for shift in (0, 1):
        classes = 10 if name == "top-1" else 96
        np.savez(tmp_path / f"{shift}.npz", **{**arrays, "labels": (arrays["labels"] + shift) % classes})
        options = CheckOptions(metric=name, gates=Gates(max_metric_loss=2.0))
        data = DataRequest(path=tmp_path / f"{shift}.npz")
        report = check_model(folder / "model.onnx", baseline=folder / "model.onnx", data=data, options=options)
        (gate,) = (gate for gate in report.gates if gate.name == "max-metric-loss")
        assert gate.passed is not bool(shift)
        assert ["better than guessing" in failure for failure in gate.failures] == [True] * shift


def right_box(outputs: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
    """Share of the samples whose highest score is the right one; the labels are floats."""
    assert all(each is not None and each.dtype == np.float32 for each in labels)
    return float(np.mean([run["s0"].argmax() == label[0] for run, label in zip(outputs, labels, strict=True)]))


def test_a_function_of_the_user_gates_as_a_named_metric_does(tmp_path: Path) -> None:
    weight = np.eye(CLASSES, dtype=np.float32)
    x = np.eye(CLASSES, dtype=np.float32)[np.arange(14) % CLASSES]
    np.savez(tmp_path / "d.npz", x=x, labels=(np.arange(14) % CLASSES).astype(np.float32))
    good, bad = scores_model(weight, batch=1), scores_model(np.roll(weight, 1, axis=1), batch=1)
    for model, loss in ((good, 0.0), (bad, 1.0)):
        options = CheckOptions(metric=right_box, gates=Gates(max_metric_loss=0.5, min_sqnr=0))
        report = check_model(model, baseline=good, data=tmp_path / "d.npz", options=options)
        assert (report.metric.name, report.metric.baseline, report.metric.loss) == ("right_box", 1.0, loss)
        gate = next(gate for gate in report.gates if gate.name == "max-metric-loss")
        assert gate.passed is (loss == 0)
        assert "chance" not in gate.requires
