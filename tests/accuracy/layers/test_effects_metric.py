"""The task metric of each layer, against models that have the pairs of this layer only, or all others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.layered import MAX, Planned, chain, outputs, planned, rows, save

from qdqtool.accuracy.layers import effects
from qdqtool.errors import UsageError
from qdqtool.jobs.sensitivity import SensitivityOptions, measure_sensitivity
from qdqtool.models.plan import Placement
from qdqtool.samples.request import RandomData

DEPTH = 4


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tmp_path, chain(DEPTH, uneven=300), rows())
    return tmp_path


def likeness(outputs: Sequence[Mapping[str, np.ndarray]], labels: Sequence[object]) -> float:
    """Mean of all values, which every error changes."""
    assert list(labels) == [None] * len(outputs)
    return float(np.mean([each["y"] for each in outputs], dtype=np.float64))


def value(made: Planned, keep: Callable[[Placement], bool], count: int | None = None) -> float:
    plan = replace(made.plan, placements=tuple(each for each in made.plan if keep(each)))
    samples = [dict(sample) for sample in made.choosing][:count]
    return likeness([{"y": y} for (y,) in outputs(made.applied(plan), samples)], [None] * len(samples))


def of(number: int) -> Callable[[Placement], bool]:
    """Whether a pair is read by a product."""
    output = "y" if number == DEPTH - 1 else f"a{number}"
    return lambda placement: placement.slot.uses is not None and placement.slot.uses[0].node == (output,)


def but(number: int) -> Callable[[Placement], bool]:
    """Whether a pair is read by another product."""
    own = of(number)
    return lambda placement: not own(placement)


def test_every_layer_has_the_metric_that_onnxruntime_gives(folder: Path) -> None:
    report = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX, metric=likeness))
    assert report.metric is not None
    with planned(folder) as made:
        known = [value(made, lambda _: False), value(made, lambda _: True)]
        assert [report.metric.float_value, report.metric.value] == pytest.approx(known, rel=1e-5)
        for layer in report.nodes:
            number = int(layer.node.removeprefix("m"))
            alone, without = value(made, of(number)), value(made, but(number))
            assert layer.metric is not None
            assert [layer.metric.alone, layer.metric.without] == pytest.approx([alone, without], rel=1e-5)
            assert alone != pytest.approx(known[0], rel=1e-5)
        assert report.metric.samples == report.metric.layer_samples == report.metric.predictions == len(made.choosing)
    assert report.metric.loss == report.metric.float_value - report.metric.value


def test_many_layers_are_measured_on_fewer_samples(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "FEW_SAMPLES", 3)
    monkeypatch.setattr(effects, "RUNS_PER_SAMPLE", 4)
    report = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX, metric=likeness))
    told = report.metric
    assert told is not None
    # 8 samples may choose: 4 runs of each are 32, for two of each layer.
    assert (told.samples, told.layer_samples, told.layer_predictions) == (8, 4, 4)
    with planned(folder) as made:
        known = [value(made, lambda _: False, 4), value(made, lambda _: True, 4), value(made, lambda _: True)]
        assert [told.layer_float_value, told.layer_value, told.value] == pytest.approx(known, rel=1e-5)
        first = next(layer.metric for layer in report.nodes if layer.node == "m1")
        assert first is not None
        assert first.alone == pytest.approx(value(made, of(1), 4), rel=1e-5)


def test_a_metric_changes_nothing_else(folder: Path) -> None:
    plain = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX))
    scored = measure_sensitivity(folder / "m.onnx", folder / "d.npz", SensitivityOptions(recipe=MAX, metric=likeness))
    assert (plain.metric, [each.metric for each in plain.nodes]) == (None, [None] * DEPTH)
    nodes = tuple(replace(each, metric=None) for each in scored.nodes)
    assert replace(scored, metric=None, nodes=nodes, runs=plain.runs) == plain


def test_labels_are_missed_before_anything_is_calibrated(folder: Path) -> None:
    def never(_: int, __: int) -> None:
        raise AssertionError

    options = SensitivityOptions(recipe=MAX, metric="top-1")
    for data in (folder / "d.npz", RandomData()):
        with pytest.raises(UsageError, match="no right answers to measure by"):
            measure_sensitivity(folder / "m.onnx", data, options, never)
