"""The samples and labels that a metric and its limit need, against numbers that are counted by hand."""

from pathlib import Path

import numpy as np
import pytest
from support.layered import MAX, chain, rows

from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.accuracy.search.metric_data import (
    CHOOSE,
    MEASURE,
    DataPart,
    refuse_coarse,
    require_predictions,
    require_samples,
    upwards,
)
from qdqtool.accuracy.task_metrics.measure import Measure, RequestedMetric
from qdqtool.accuracy.task_metrics.request import load_metric
from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.preparation.plan_inputs import PlanSources
from qdqtool.samples.request import RandomData
from qdqtool.samples.split import split_samples

ROWS = 4
TOP_1: RequestedMetric = load_metric("top-1")


@pytest.fixture
def model() -> Model:
    return Model(chain(2))


def save(path: Path, count: int) -> Path:
    """Samples of four predictions each."""
    np.savez(path, x=np.stack([each["x"] for each in rows(count=count)]), labels=np.zeros((count, ROWS), np.int64))
    return path


def top_1() -> Measure:
    return TOP_1.measure(["y"])


@pytest.mark.parametrize("count", [3, 12, 30])
def test_a_fifth_that_is_held_back_has_to_show_the_loss(model: Model, count: int, tmp_path: Path) -> None:
    held = len(split_samples(count).held) or count
    one = 100 / (ROWS * held)
    sources = PlanSources(save(tmp_path / "d.npz", count), trial=try_methods)
    require_predictions(TOP_1, model, sources, MAX, one)
    with pytest.raises(UsageError, match=f"one of the {ROWS * held} predictions") as refused:
        require_predictions(TOP_1, model, sources, MAX, one / 2.001)
    # More than twice as many show less than half of the loss.
    assert refused.value.hint.startswith(f"{2 * held + 1} samples of that part can show it")
    assert ("a fifth of the data" in refused.value.hint) is (count > 3)


def test_beside_validation_data_all_calibration_data_chooses(model: Model, tmp_path: Path) -> None:
    data, more = save(tmp_path / "d.npz", 10), save(tmp_path / "v.npz", 20)
    sources, swapped = PlanSources(data, more, trial=try_methods), PlanSources(more, data, trial=try_methods)
    for each in (sources, swapped):
        require_predictions(TOP_1, model, each, MAX, 2.5)
    with pytest.raises(UsageError, match=r"one of the 40 predictions on the samples that choose is 2\.5 percentage"):
        require_predictions(TOP_1, model, sources, MAX, 2.4)
    with pytest.raises(UsageError, match=r"one of the 40 predictions on the samples that measure is 2\.5 percentage"):
        require_predictions(TOP_1, model, swapped, MAX, 2.4)


def test_a_metric_that_can_show_any_loss_reads_no_sample(model: Model, tmp_path: Path) -> None:
    sources = PlanSources(tmp_path / "missing.npz", trial=try_methods)
    require_predictions(load_metric("perplexity"), model, sources, MAX, 1e-9)
    require_predictions(load_metric(lambda _, __: 0.0), model, sources, MAX, 1e-9)
    with pytest.raises(UsageError, match=r"missing\.npz"):
        require_predictions(TOP_1, model, sources, MAX, 1e-9)


def test_labels_without_an_element_show_nothing() -> None:
    with pytest.raises(UsageError, match="the labels of the samples that choose are empty"):
        refuse_coarse(1, top_1(), [DataPart(CHOOSE, 3, 0), DataPart(MEASURE, 3, 12)])


@pytest.mark.parametrize("data", [None, CachedRanges(path=Path("r.json"))])
def test_a_metric_needs_samples_to_measure_it_on(data: CachedRanges | None) -> None:
    with pytest.raises(UsageError, match="there are no samples to measure the requested metric on"):
        require_samples(PlanSources(data, trial=try_methods))
    require_samples(PlanSources(data, Path("v.npz"), trial=try_methods))


def test_samples_beside_ranges_are_samples() -> None:
    require_samples(PlanSources(CachedRanges(path=Path("r.json"), data=RandomData()), trial=try_methods))  # type: ignore[arg-type]
    require_samples(PlanSources(Path("d.npz"), trial=try_methods))


@pytest.mark.parametrize("value", [0.5, 33.3333, 1e-9, 0.12301, 99.95, 1.0])
def test_a_limit_in_a_hint_is_no_less_than_the_loss_and_hardly_more(value: float) -> None:
    assert value <= upwards(value) <= value * 1.011
    assert float(f"{upwards(value):g}") == upwards(value)
