"""The task metric of a quantized model that is not written yet, against ONNX Runtime on the same model."""

from pathlib import Path

import numpy as np
import pytest
from support.layered import MAX, Planned, chain, outputs, planned, rows, save

from qdqtool.accuracy.report import MetricResult
from qdqtool.accuracy.task_metrics.request import MetricMeasurement, load_metric
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.preparation.calibration import runs_for
from qdqtool.samples.request import FileData, open_feeds

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
