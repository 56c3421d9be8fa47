"""A task metric over samples: which requests are legal, what is counted, and what is told of it."""

import math

import ml_dtypes
import numpy as np
import pytest

from qdqtool.data import Sample
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.task_metrics.metric import MetricCheck


def sample(*labels: int, batch: int = 1, filler: int = 0, shape: tuple[int, ...] | None = None) -> Sample:
    array = np.array(labels)
    return Sample({}, batch=batch, filler=filler, labels=array if shape is None else array.reshape(shape))


def scores(*classes: int, count: int = 4) -> np.ndarray:
    """Rows whose highest score is that of these classes."""
    return np.eye(count, dtype=np.float32)[list(classes)]


@pytest.mark.parametrize(
    ("request_", "outputs", "output"), [("top-1", ["s"], "s"), ("top-1:t", ["s", "t"], "t"), ("top-1:s", ["s"], "s")]
)
def test_a_request_names_the_output_where_there_are_several(request_: str, outputs: list[str], output: str) -> None:
    check = MetricCheck.of(request_, outputs)
    assert (check.name, check.output) == ("top-1", output)


@pytest.mark.parametrize(
    ("request_", "outputs", "message", "hint"),
    [
        (
            "top-1",
            ["a b", "t"],
            "--metric top-1: the model has 2 outputs: a b, t",
            "name the one with the scores, for example: `--metric 'top-1:a b'`",
        ),
        ("top-1", [], "--metric top-1: the model has 0 outputs: ", None),
        (
            "top-1:tt",
            ["s", "ttt"],
            "--metric top-1:tt: 'tt' is no output; the outputs are s, ttt; did you mean 'ttt'?",
            None,
        ),
        ("top-1:x", ["s"], "--metric top-1:x: 'x' is no output; the outputs are s", None),
    ],
)
def test_a_request_that_names_no_output_is_refused(
    request_: str, outputs: list[str], message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as refused:
        MetricCheck.of(request_, outputs)
    assert (refused.value.message, refused.value.hint) == (message, hint)


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(ArgumentError, match="metric 'top' is unknown"):
        MetricCheck.of("top:s", ["s"])


def test_every_source_has_its_own_mean_over_all_runs() -> None:
    check = MetricCheck.of("top-1", ["s"])
    for source, found in (("model", [0, 1, 3]), ("baseline", [0, 1, 2]), ("saved", [1, 1, 3])):
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
    check = MetricCheck.of("top-1", ["s"])
    check.add("model", scores(0), sample(0))
    told = check.result()
    assert (told.baseline, told.loss, told.saved, told.saved_loss, told.baseline_chance) == (None,) * 5


def test_chance_is_told_of_the_model_and_of_the_baseline() -> None:
    check = MetricCheck.of("top-1", ["s"])
    check.add("model", scores(*range(4), *range(4)), sample(*range(4), *range(4)))
    check.add("baseline", scores(0, 0), sample(1, 2))
    told = check.result()
    assert told.chance is None
    assert told.baseline_chance is not None
    assert told.baseline_chance.startswith("0 of 2 predictions are right; guessing one of 4 classes")


def test_the_least_number_of_classes_counts() -> None:
    check = MetricCheck.of("top-1", ["s"])
    assert check.classes == 0
    for count, least in ((7, 7), (5, 5), (6, 5)):
        check.add("model", scores(0, count=count), sample(0))
        assert check.classes == least


def test_no_predictions_are_no_number_and_no_chance() -> None:
    check = MetricCheck.of("top-1", ["s"])
    check.add("model", np.zeros((0, 4), np.float32), sample())
    told = check.result()
    assert math.isnan(told.value)
    assert (told.predictions, told.chance) == (0, None)


def test_padded_rows_are_left_out() -> None:
    check = MetricCheck.of("top-1", ["s"])
    check.add("model", scores(0, 1, 2, 3), sample(0, 1, batch=4, filler=2))
    assert (check.result().predictions, check.result().value) == (2, 100)


@pytest.mark.parametrize(
    ("shape", "labels"), [((1, 2, 4), (2,)), ((2, 1, 4), (1, 2)), ((2, 4), (2, 1)), ((1, 4, 2), (4,))]
)
def test_axes_of_length_one_do_not_matter(shape: tuple[int, ...], labels: tuple[int, ...]) -> None:
    check = MetricCheck.of("top-1", ["s"])
    count = math.prod(labels)
    check.add("model", np.zeros(shape, np.float32), sample(*[0] * count, shape=labels))
    assert (check.result().predictions, check.result().value, check.classes) == (count, 100, shape[-1])


def test_bfloat16_scores_are_legal() -> None:
    check = MetricCheck.of("perplexity", ["s"])
    check.add("model", np.zeros((1, 8), ml_dtypes.bfloat16), sample(3))
    assert check.result().value == pytest.approx(8)


@pytest.mark.parametrize(
    ("found", "labels", "message"),
    [
        (
            np.int64([[1, 2]]),
            [0],
            "output 's' is int64 [1, 2]; it must hold float scores, with the classes along its last axis",
        ),
        (
            np.float32(1.0),
            [0],
            "output 's' is float32 []; it must hold float scores, with the classes along its last axis",
        ),
        (
            np.zeros((3, 4), np.float32),
            [0, 1],
            "output 's' has shape [3, 4] and the labels [2] in one run; there must be one label for each row of scores",
        ),
        (np.zeros((2, 4), np.float32), [3, 4], "label 4 has no score; output 's' has classes 0 to 3"),
        (np.zeros((2, 4), np.float32), [-1, 3], "label -1 has no score; output 's' has classes 0 to 3"),
    ],
)
def test_scores_that_do_not_fit_the_labels_are_refused(found: np.ndarray, labels: list[int], message: str) -> None:
    check = MetricCheck.of("top-1", ["s"])
    with pytest.raises(UsageError) as refused:
        check.add("model", np.asarray(found), sample(*labels))
    assert refused.value.message == f"--metric top-1: {message}"


def test_every_class_may_be_a_label() -> None:
    check = MetricCheck.of("top-1", ["s"])
    check.add("model", scores(0, 3), sample(0, 3))
    assert check.result().value == 100
