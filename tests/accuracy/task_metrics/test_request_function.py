"""Functions of the user as metrics: what they get, and what becomes of all that they may return or raise."""

import math
from fractions import Fraction

import numpy as np
import pytest

from qdqtool.accuracy.task_metrics.request import FunctionMeasure, FunctionTally
from qdqtool.errors import UsageError
from qdqtool.samples.sample import Sample
from qdqtool.samples.script import UserFunction


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
