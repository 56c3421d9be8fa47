"""Requests for metrics: names, scripts and callables, the labels that each needs, and comparisons of models."""

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.layered import MAX, Planned, chain, outputs, planned, rows, save

from qdqtool.accuracy.report import ClassRecall, MetricResult
from qdqtool.accuracy.task_metrics.measure import NamedMeasure, Score
from qdqtool.accuracy.task_metrics.request import (
    BASELINE,
    MODEL,
    SAVED,
    FunctionMeasure,
    FunctionTally,
    MetricComparison,
    MetricMeasurement,
    MetricRequest,
    compared,
    labelled_for,
    load_metric,
)
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.preparation.calibration import runs_for
from qdqtool.samples.feeds import Feeds, load_feeds
from qdqtool.samples.request import FileData, open_feeds
from qdqtool.samples.sample import NoLabelsError, Sample
from qdqtool.samples.script import UserFunction
from qdqtool.samples.signature import InputSpec


def script(folder: Path, body: str = "def score(outputs, labels):\n    return 0.5\n") -> Path:
    path = folder / "metric.py"
    path.write_text(body)
    return path


def test_a_name_a_script_and_a_callable_are_told_apart(tmp_path: Path) -> None:
    named, scripted, called = load_metric("top-1:s"), load_metric(f"{script(tmp_path)}:score"), load_metric(max)
    assert isinstance(named, NamedMeasure)
    assert (named.name, named.output, named.needs_labels) == ("top-1", "s", True)
    assert isinstance(scripted, FunctionMeasure)
    assert (scripted.name, scripted.needs_labels) == ("score", False)
    assert isinstance(called, FunctionMeasure)
    assert called.function.function is max


def test_a_script_is_executed_when_it_is_loaded_and_only_then(tmp_path: Path) -> None:
    body = "from pathlib import Path\nwith open(Path(__file__).parent / 'log', 'a') as log: log.write('x')\n"
    metric = load_metric(f"{script(tmp_path, body + 'def score(outputs, labels): return 1.0')}:score")
    for model in ("one", "two"):
        assert metric.measure([]).tally(model).score().value == 1
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("none.py:score", "script none.py: no such file", None),
        ("metric.py", "--metric metric.py: which function of the script?", "`--metric metric.py:FUNCTION`"),
        (
            "metric.py:scor",
            "metric.py has no function 'scor'; did you mean 'score'?",
            "define scor(), taking the outputs and the labels of all samples, or name another: metric.py:func",
        ),
    ],
)
def test_a_script_that_is_not_there_or_lacks_the_function_is_refused(
    word: str, message: str, hint: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refused:
        load_metric(word)
    assert (refused.value.message, refused.value.hint) == (message, hint)


def test_a_script_that_fails_is_told_with_its_line(tmp_path: Path) -> None:
    path = script(tmp_path, "\n1 / 0\n")
    with pytest.raises(UsageError, match=r"metric\.py raised ZeroDivisionError in line 2: division by zero"):
        load_metric(f"{path}:score")


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ArgumentError, match="metric 'top' is unknown"):
        load_metric("top:s")


def feeds(folder: Path, **arrays: np.ndarray) -> Feeds:
    np.savez(folder / "d.npz", **arrays)
    return load_feeds(folder / "d.npz", (InputSpec("x", np.dtype(np.float32), ("n", 2)),))


def test_labels_are_needed_by_a_name_and_may_be_missing_for_a_function(tmp_path: Path) -> None:
    x = np.zeros((3, 2), np.float32)
    without = feeds(tmp_path, x=x)
    with pytest.raises(NoLabelsError, match="has no labels for the metric"):
        labelled_for(load_metric("top-1"), without)
    assert [sample.labels for sample in labelled_for(load_metric(max), without)] == [None] * 3
    for request in ("top-1", max):
        found = labelled_for(load_metric(request), feeds(tmp_path, x=x, labels=np.arange(3)))
        assert [sample.labels.tolist() for sample in found] == [[0], [1], [2]]


def test_labels_of_another_number_are_refused_for_a_function_too(tmp_path: Path) -> None:
    bad = feeds(tmp_path, x=np.zeros((3, 2), np.float32), labels=np.arange(2))
    with pytest.raises(UsageError, match="'labels' has 2 rows"):
        labelled_for(load_metric(max), bad)


# --- several models over the same samples, and what a report has of them ---


def comparison(request: MetricRequest = "top-1") -> MetricComparison:
    return MetricComparison(load_metric(request).measure(["s"]))


def sample(*labels: int) -> Sample:
    return Sample({}, labels=np.array(labels))


def scores(*classes: int) -> dict[str, np.ndarray]:
    """Rows whose highest score is that of these classes."""
    return {"s": np.eye(4, dtype=np.float32)[list(classes)]}


def test_every_source_has_its_own_mean_over_all_runs() -> None:
    check = comparison()
    for source, found in ((MODEL, [0, 1, 3]), (BASELINE, [0, 1, 2]), (SAVED, [1, 1, 3])):
        check.add(source, scores(*found[:2]), sample(0, 1))
        check.add(source, scores(found[2]), sample(2))
    told = check.result()
    assert (told.name, told.output, told.unit, told.loss_unit) == ("top-1", "s", "%", "percentage points")
    assert (told.predictions, told.value, told.baseline, told.saved) == (
        3,
        pytest.approx(200 / 3),
        pytest.approx(100),
        pytest.approx(100 / 3),
    )
    assert (told.loss, told.saved_loss) == (pytest.approx(100 / 3), pytest.approx(100 / 3))


def test_without_other_sources_there_is_no_loss() -> None:
    check = comparison()
    check.add(MODEL, scores(0), sample(0))
    check.add(BASELINE, {}, sample(0))
    check.add(SAVED, {"t": np.zeros(1, np.float32)}, sample(0))
    told = check.result()
    assert (told.baseline, told.loss, told.saved, told.saved_loss, told.baseline_chance) == (None,) * 5


def test_chance_is_told_of_the_model_and_of_the_baseline() -> None:
    check = comparison()
    check.add(MODEL, scores(*range(4), *range(4)), sample(*range(4), *range(4)))
    check.add(BASELINE, scores(0, 0), sample(1, 2))
    told = check.result()
    assert told.chance is None
    assert told.baseline_chance.startswith("0 of 2 predictions are right; guessing one of 4 classes")


def test_a_function_is_called_once_for_each_source_with_all_of_its_samples() -> None:
    calls = []

    def right(outputs: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
        calls.append(len(outputs))
        return sum(int(each["s"].argmax()) == int(label[0]) for each, label in zip(outputs, labels, strict=True))

    check = comparison(right)
    for label in range(3):
        check.add(MODEL, scores(0), sample(label))
        check.add(BASELINE, scores(label), sample(label))
    told = check.result()
    assert calls == [3, 3]
    assert (told.value, told.baseline, told.loss, told.saved) == (1, 3, 2, None)
    assert (told.output, told.unit, told.loss_unit, told.predictions, told.chance) == (None, "", "", 3, None)


# --- functions of the user: what they get, return and raise ---


def tally(function: object) -> FunctionTally:
    return FunctionMeasure(UserFunction.of(function)).measure(["s"]).tally("the baseline")


def returning(value: object) -> FunctionTally:
    def metric(outputs, labels):
        del outputs, labels
        return value

    return tally(metric)


def test_the_function_gets_real_rows_of_all_outputs_and_labels_or_none() -> None:
    seen = []
    found = tally(lambda outputs, labels: seen.append((outputs, labels)) or 0.5)
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    found.add({"s": rows, "n": np.int64([7])}, Sample({}, batch=4, filler=1, labels=np.array([1, 2, 3])))
    found.add({"s": rows[:1], "n": np.int64([8])}, Sample({}))
    assert found.score().value == 0.5
    [(outputs, labels)] = seen
    assert [{name: array.tolist() for name, array in each.items()} for each in outputs] == [
        {"s": rows[:3].tolist(), "n": [7]},
        {"s": rows[:1].tolist(), "n": [8]},
    ]
    assert [each if each is None else each.tolist() for each in labels] == [[1, 2, 3], None]
    assert found.score().predictions == 2


def test_what_the_function_writes_into_its_arrays_changes_no_other_array() -> None:
    def spoil(outputs: list[dict[str, np.ndarray]], labels: list[np.ndarray]) -> float:
        outputs[0]["s"][:] = 9
        labels[0][:] = 9
        return 0

    found, scores, labels = tally(spoil), np.zeros(2), np.zeros(2)
    found.add({"s": scores}, Sample({}, labels=labels))
    found.score()
    assert (scores.tolist(), labels.tolist()) == ([0, 0], [0, 0])


@pytest.mark.parametrize(
    "value", [1, 0.5, np.float32(0.5), np.array(2), Fraction(1, 2), -3.0], ids=lambda value: type(value).__name__
)
def test_every_real_number_is_a_value(value: object) -> None:
    score = returning(value).score()
    assert type(score.value) is float
    assert (score.value, score.chance) == (float(value), None)


def test_a_negative_zero_is_shown_as_zero() -> None:
    assert str(returning(-0.0).score().value) == "0.0"


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        (np.array(math.nan), "nan"),
        (None, "None"),
        (True, "a bool"),
        (np.bool_(True), "a bool"),
        ("0.5", "a str"),
        (1j, "a complex"),
        ([1.0], "a list"),
        (np.zeros((2, 3), np.float32), "an array of float32 [2, 3]"),
        (np.array(True), "an array of bool []"),
    ],
    ids=str,
)
def test_what_is_no_finite_number_is_refused_with_function_line_and_model(value: object, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        returning(value).score()
    line = returning.__code__.co_firstlineno + 1
    assert refused.value.message == (
        f"returning.<locals>.metric() (line {line}) returned {told} for the baseline; it must return one finite "
        "number, higher where the model is better"
    )


def test_an_exception_of_the_function_is_one_line_that_names_it() -> None:
    def metric(outputs, labels):
        return outputs[0]["boxes"] + labels

    found = tally(metric)
    found.add({"s": np.zeros(1)}, Sample({}))
    with pytest.raises(UsageError) as refused:
        found.score()
    line = metric.__code__.co_firstlineno + 1
    assert refused.value.message.endswith(f"metric() raised KeyError in line {line}: 'boxes'")


def test_a_loss_is_what_the_model_has_less() -> None:
    measure = FunctionMeasure(UserFunction.of(max))
    assert measure.loss(0.25, 1.0) == 0.75
    assert measure.loss(1.0, 0.25) == -0.75
    assert measure.resolution(1) is None
    assert (measure.name, measure.output, measure.unit, measure.loss_unit) == ("max", None, "", "")


# --- a quantized model that is not written yet, against ONNX Runtime ---


COUNT = 40
"""More samples than the SQNR is measured on: the metric is measured on all of them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of 16 classes; every fourth label is another class than what the float model says."""
    folder = tmp_path_factory.mktemp("measurement")
    model, given = chain(4, uneven=300), rows(count=COUNT)
    save(folder, model, given)
    labels = np.stack([y.argmax(axis=-1) for (y,) in outputs(model, given)])
    labels[::4] = (labels[::4] + 1) % 16
    np.savez(folder / "d.npz", x=np.stack([each["x"] for each in given]), labels=labels)
    return folder


def by_hand(folder: Path, model: object) -> float:
    known = np.load(folder / "d.npz")
    found = np.stack([y.argmax(axis=-1) for (y,) in outputs(model, [{"x": x} for x in known["x"]])])  # type: ignore[arg-type]
    return 100 * float(np.mean(found == known["labels"]))


def without_last(made: Planned) -> QuantPlan:
    return QuantPlan(made.plan.placements[:-2])


def test_both_models_are_measured_on_all_samples_and_the_float_one_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    with planned(folder) as made, runs_for(MAX) as runs:
        measurement = MetricMeasurement(load_metric("top-1"))
        feeds = open_feeds(made.ready, FileData(path=folder / "d.npz"))
        observer = runs.observer
        monkeypatch.setattr(
            type(runs), "observer", lambda _, model, values: ran.append("float") or observer(model, values)
        )
        known = []
        for plan in (made.plan, without_last(made)):
            applied = made.applied(plan)
            result = measurement.of(made.ready, Model(applied), feeds, runs)
            known.append((result, by_hand(folder, applied)))
    baseline = by_hand(folder, folder / "m.onnx")
    assert baseline == 75
    for result, value in known:
        assert isinstance(result, MetricResult)
        assert (result.name, result.output, result.predictions) == ("top-1", "y", 4 * COUNT)
        assert (result.value, result.baseline) == pytest.approx((value, baseline))
        assert result.loss == pytest.approx(baseline - value)
    assert known[0][1] != known[1][1]
    assert ran == ["float"]


def test_a_function_gets_outputs_of_the_model_that_it_measures(folder: Path) -> None:
    got: list[np.ndarray] = []

    def function(found: list[dict[str, np.ndarray]], labels: list[np.ndarray | None]) -> float:
        assert len(labels) == len(found) == COUNT
        got.append(np.stack([each["y"] for each in found]))
        return float(len(got))

    with planned(folder) as made, runs_for(MAX) as runs:
        applied = made.applied(made.plan)
        feeds = open_feeds(made.ready, FileData(path=folder / "d.npz"))
        result = MetricMeasurement(load_metric(function)).of(made.ready, Model(applied), feeds, runs)
    samples = [{"x": x} for x in np.load(folder / "d.npz")["x"]]
    for model, found in zip((folder / "m.onnx", applied), got, strict=True):
        assert np.allclose(found, [y for (y,) in outputs(model, samples)], rtol=1e-4, atol=1e-4)
    # The float model comes first, and a higher value is better.
    assert (result.baseline, result.value, result.loss) == (1, 2, -1)
    assert not np.allclose(got[0], got[1], rtol=1e-2)


def test_the_recall_of_classes_is_compared_the_largest_loss_first() -> None:
    measure = NamedMeasure.of("top-1").measure(["s"])
    baseline = Score(value=100.0, predictions=90, classes={0: (40, 100.0), 1: (40, 100.0), 2: (10, 50.0)})
    model = Score(value=60.0, predictions=91, classes={0: (40, 90.0), 1: (40, 87.5), 2: (10, 50.0), 3: (1, 0.0)})
    assert compared(measure, model, baseline).classes == (
        # One of 40 predictions is 2.5 points. Four may be chance, five are not.
        ClassRecall(label=1, predictions=40, value=87.5, baseline=100.0, is_lost=True),
        ClassRecall(label=0, predictions=40, value=90.0, baseline=100.0),
        ClassRecall(label=2, predictions=10, value=50.0, baseline=50.0),
        ClassRecall(label=3, predictions=1, value=0.0),
    )
    assert [each.label for each in compared(measure, model).classes] == [3, 2, 1, 0]
