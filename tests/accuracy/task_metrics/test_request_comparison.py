"""A metric of several models over the same samples, and what a report has of it."""

import numpy as np
import pytest

from qdqtool.accuracy.task_metrics.request import BASELINE, MODEL, SAVED, MetricComparison, MetricRequest, load_metric
from qdqtool.samples.sample import Sample


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
    assert told.baseline_chance is not None
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
