"""A metric of ours over samples: which requests are legal, and what is counted."""

import math

import ml_dtypes
import numpy as np
import pytest

from qdqtool.accuracy.task_metrics.measure import NamedMeasure, NamedTally
from qdqtool.errors import UsageError
from qdqtool.samples.sample import Sample


def sample(*labels: int, batch: int = 1, filler: int = 0, shape: tuple[int, ...] | None = None) -> Sample:
    array = np.array(labels, np.int64)
    return Sample({}, batch=batch, filler=filler, labels=array if shape is None else array.reshape(shape))


def measure(request: str, outputs: list[str]) -> NamedMeasure:
    return NamedMeasure.of(request).measure(outputs)


def tally(request: str = "top-1") -> NamedTally:
    return measure(request, ["s"]).tally("the model")


def scores(*classes: int, count: int = 4) -> np.ndarray:
    """Rows whose highest score is that of these classes."""
    return np.eye(count, dtype=np.float32)[list(classes)]


@pytest.mark.parametrize(
    ("request_", "outputs", "output"), [("top-1", ["s"], "s"), ("top-1:t", ["s", "t"], "t"), ("top-1:s", ["s"], "s")]
)
def test_a_request_names_the_output_where_there_are_several(request_: str, outputs: list[str], output: str) -> None:
    check = measure(request_, outputs)
    assert (check.name, check.output) == ("top-1", output)


@pytest.mark.parametrize(
    ("request_", "outputs", "message", "hint"),
    [
        ("top-1", ["a b", "t"], "the model has 2 outputs: a b, t", "`--metric 'top-1:a b'`"),
        ("top-1", [], "the model has 0 outputs: ", None),
        ("top-1:tt", ["s", "ttt"], "'tt' is no output; the outputs are s, ttt; did you mean 'ttt'?", None),
        ("top-1:x", ["s"], "'x' is no output; the outputs are s", None),
    ],
)
def test_a_request_that_names_no_output_is_refused(
    request_: str, outputs: list[str], message: str, hint: str | None
) -> None:
    with pytest.raises(UsageError) as refused:
        measure(request_, outputs)
    assert refused.value.message == f"--metric {request_}: {message}"
    assert refused.value.hint == (hint and f"name the one with the scores, for example: {hint}")


def test_the_least_number_of_classes_counts() -> None:
    check = tally()
    assert check.classes == 0
    for count, least in ((7, 7), (5, 5), (6, 5)):
        check.add({"s": scores(0, count=count)}, sample(0))
        assert check.classes == least


def test_no_predictions_are_no_number_and_no_chance() -> None:
    check = tally()
    check.add({"s": np.zeros((0, 4), np.float32)}, sample())
    told = check.score()
    assert math.isnan(told.value)
    assert (told.predictions, told.chance) == (0, None)


def test_padded_rows_are_left_out() -> None:
    check = tally()
    check.add({"s": scores(0, 1, 2, 3)}, sample(0, 1, batch=4, filler=2))
    assert (check.score().predictions, check.score().value) == (2, 100)


@pytest.mark.parametrize(
    ("shape", "labels"), [((1, 2, 4), (2,)), ((2, 1, 4), (1, 2)), ((2, 4), (2, 1)), ((1, 4, 2), (4,))]
)
def test_axes_of_length_one_do_not_matter(shape: tuple[int, ...], labels: tuple[int, ...]) -> None:
    check = tally()
    count = math.prod(labels)
    check.add({"s": np.zeros(shape, np.float32)}, sample(*[0] * count, shape=labels))
    assert (check.score().predictions, check.score().value, check.classes) == (count, 100, shape[-1])


def test_bfloat16_scores_are_legal() -> None:
    check = tally("perplexity")
    check.add({"s": np.zeros((1, 8), ml_dtypes.bfloat16)}, sample(3))
    assert check.score().value == pytest.approx(8)


NO_SCORES = "it must hold float scores, with the classes along its last axis"
OTHER_ROWS = "in one run; there must be one label for each row of scores"


@pytest.mark.parametrize(
    ("found", "labels", "message"),
    [
        (np.int64([[1, 2]]), [0], f"output 's' is int64 [1, 2]; {NO_SCORES}"),
        (np.float32(1.0), [0], f"output 's' is float32 []; {NO_SCORES}"),
        (np.zeros((3, 4), np.float32), [0, 1], f"output 's' has shape [3, 4] and the labels [2] {OTHER_ROWS}"),
        (np.zeros((2, 4), np.float32), [3, 4], "label 4 has no score; output 's' has classes 0 to 3"),
        (np.zeros((2, 4), np.float32), [-1, 3], "label -1 has no score; output 's' has classes 0 to 3"),
    ],
)
def test_scores_that_do_not_fit_the_labels_are_refused(found: np.ndarray, labels: list[int], message: str) -> None:
    check = tally()
    with pytest.raises(UsageError) as refused:
        check.add({"s": np.asarray(found)}, sample(*labels))
    assert refused.value.message == f"--metric top-1: {message}"


@pytest.mark.parametrize("batch", [1, 4])
def test_copies_of_a_sample_are_no_further_predictions(batch: int) -> None:
    """64 copies of one right answer of two classes are as good as one, which guessing gives too."""
    check = tally()
    for _ in range(64 // batch):
        inputs = {"x": np.ones((batch, 3), np.float32), "rate": np.float32(1)}
        given = Sample(inputs, batch=batch, labels=np.zeros(batch, np.int64))
        check.add({"s": scores(*[0] * batch, count=2)}, given)
    score = check.score()
    assert (score.predictions, score.distinct) == (64, 1)
    assert score.chance is not None
    assert score.chance.startswith("1 of 1 predictions are right")
    others = Sample({"x": np.eye(4, 3, dtype=np.float32)}, batch=4, filler=1, labels=np.zeros((3, 5), np.int64))
    check.add({"s": np.zeros((4, 5, 2), np.float32)}, others)
    assert check.score().distinct == 1 + 15


def test_the_recall_of_each_class_is_its_share_of_right_predictions() -> None:
    check = tally()
    check.add({"s": scores(0, 1, 1, 2)}, sample(0, 1, 2, 2))
    check.add({"s": scores(0, 3)}, sample(2, 2))
    assert dict(check.score().classes) == {0: (1, 100.0), 1: (1, 100.0), 2: (4, 25.0)}
    other = tally("perplexity")
    other.add({"s": scores(0, 1)}, sample(0, 1))
    assert dict(other.score().classes) == {}
