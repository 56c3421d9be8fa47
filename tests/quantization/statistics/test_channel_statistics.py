"""Statistics of channels against those of activations that were kept, and what is left out."""

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import conv_model, make_model, run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.quantization.statistics.channel_statistics import MAX_SAMPLES, ChannelData
from qdqtool.quantization.statistics.float_runs import FloatRuns
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription
from qdqtool.samples.request import open_feeds
from qdqtool.samples.sample import Sample

CHANNELS = np.arange(1, 7, dtype=np.float32)
"""The value of each of six channels. They differ: a sample with a single value would be refused."""


def feeds_of(model: onnx.ModelProto, folder, **arrays: np.ndarray):
    np.savez(folder / "data.npz", **arrays)
    return open_feeds(Model(model), folder / "data.npz")


def rows(array: np.ndarray, axis: int) -> np.ndarray:
    return np.moveaxis(array.astype(np.float64), axis, 0).reshape(array.shape[axis], -1)


def test_they_are_those_of_activations_that_were_kept(tmp_path):
    x = np.random.default_rng(0).normal(1, 2, size=(32, 3, 8, 8)).astype(np.float32)
    tapped = conv_model()
    tapped.graph.output.add(name="r")
    kept = np.concatenate([run(tapped, {"x": sample[np.newaxis]})[1] for sample in x])
    index = ModelIndex.of(Model(conv_model()))
    found = ChannelData(feeds_of(conv_model(), tmp_path, x=x), FloatRuns()).of(index)
    assert [value.name for value in found] == ["x", "r"]
    for (_, statistics), array in zip(found.items(), (x, kept), strict=True):
        expected = rows(array, 1)
        assert statistics.peak == pytest.approx(np.abs(expected).max(axis=1), rel=1e-5)
        assert statistics.mean == pytest.approx(expected.mean(axis=1), rel=1e-5)
        assert statistics.mean_square == pytest.approx((expected**2).mean(axis=1), rel=1e-5)


def products() -> onnx.ModelProto:
    weights = {"w": np.random.default_rng(1).normal(size=(6, 4)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("MatMul", ["m", "m"], ["y"])]
    return make_model(nodes, {"x": ("N", 4, 6)}, {"y": ("N", 4, 4)}, weights)


@pytest.mark.parametrize("empty", [0, 3])
def test_folds_are_every_other_sample_whichever_of_them_has_values_first(empty):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4, 1, 4, 6)).astype(np.float32)
    samples = [Sample({"x": sample[: number != empty]}) for number, sample in enumerate(x)]
    feeds = Feeds(samples, DataDescription("", len(samples), None, {}))
    (found,) = ChannelData(feeds, FloatRuns()).of(ModelIndex.of(Model(products()))).values()
    assert len(found.folds) == 2
    for fold in (0, 1):
        used = [number for number in range(fold, 4, 2) if number != empty]
        expected = np.abs(rows(x[used], 3)).max(axis=1)
        assert found.folds[fold] == pytest.approx(expected, rel=1e-6)
        assert found.of_fold(fold).peak == pytest.approx(expected, rel=1e-6)


def test_channels_of_a_matmul_are_on_the_last_axis_and_products_of_activations_have_none(tmp_path):
    x = np.random.default_rng(0).normal(size=(32, 4, 6)).astype(np.float32)
    found = ChannelData(feeds_of(products(), tmp_path, x=x), FloatRuns()).of(ModelIndex.of(Model(products())))
    ((value, statistics),) = found.items()
    assert value.name == "x"
    assert statistics.peak == pytest.approx(np.abs(x).max(axis=(0, 1)))


def test_a_large_model_is_looked_at_on_fewer_samples(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=(40, 4, 6)).astype(np.float32)
    monkeypatch.setattr("qdqtool.quantization.statistics.channel_statistics.MAX_VALUES", 7 * 4 * 6)
    found = ChannelData(feeds_of(products(), tmp_path, x=x), FloatRuns()).of(ModelIndex.of(Model(products())))
    (statistics,) = found.values()
    np.testing.assert_allclose(statistics.mean, x[:7].mean(axis=(0, 1)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("count", [3, MAX_SAMPLES, MAX_SAMPLES + 1, MAX_SAMPLES * 2])
def test_all_samples_are_looked_at_up_to_a_limit(count, tmp_path):
    signs = np.resize(np.float32([1, -1]), (1, 4, 6))
    x = np.arange(1, count + 1, dtype=np.float32)[:, np.newaxis, np.newaxis] * signs
    found = ChannelData(feeds_of(products(), tmp_path, x=x), FloatRuns()).of(ModelIndex.of(Model(products())))
    assert next(iter(found.values())).peak.tolist() == [min(count, MAX_SAMPLES)] * 6


def test_the_model_runs_once_however_often_it_is_asked(tmp_path, monkeypatch):
    x = np.broadcast_to(CHANNELS, (2, 4, 6))
    data = ChannelData(feeds_of(products(), tmp_path, x=x), FloatRuns())
    first = data.of(ModelIndex.of(Model(products())))
    monkeypatch.setattr(FloatRuns, "run", lambda *_: pytest.fail("it ran again"))
    data.rescale({((), "x"): np.array([2.0, 1.0, 1.0, 1.0, 1.0, 4.0]), ((), "unknown"): np.ones(1)})
    assert next(iter(first.values())).peak.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    again = next(iter(data.of(ModelIndex.of(Model(products()))).values()))
    assert again.peak.tolist() == [0.5, 2.0, 3.0, 4.0, 5.0, 1.5]
    assert data.means(Model(products()))[(), "x"].tolist() == [0.5, 2.0, 3.0, 4.0, 5.0, 1.5]
    assert again.mean_square.tolist() == [0.25, 4.0, 9.0, 16.0, 25.0, 2.25]


def test_a_tensor_that_is_not_finite_is_left_out(tmp_path):
    nodes = [helper.make_node("Div", ["x", "zero"], ["d"]), helper.make_node("MatMul", ["d", "w"], ["y"])]
    weights = {"zero": np.zeros(1, np.float32), "w": np.ones((6, 4), np.float32)}
    proto = make_model(nodes, {"x": ("N", 6)}, {"y": ("N", 4)}, weights)
    data = ChannelData(feeds_of(proto, tmp_path, x=np.broadcast_to(CHANNELS, (2, 6))), FloatRuns())
    assert data.of(ModelIndex.of(Model(proto))) == {}


def test_a_branch_that_never_runs_has_no_statistics(tmp_path):
    weights = {"w": np.ones((6, 4), np.float32), "flag": np.array(False)}
    outputs = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in ("a", "b")]
    relu, twice = helper.make_node("Relu", ["x"], ["inner"]), helper.make_node("Add", ["x", "x"], ["outer"])
    then = helper.make_graph([relu, helper.make_node("MatMul", ["inner", "w"], ["a"])], "then", [], outputs[:1])
    other = helper.make_graph([twice, helper.make_node("MatMul", ["outer", "w"], ["b"])], "else", [], outputs[1:])
    node = helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other)
    proto = make_model([node], {"x": ("N", 6)}, {"y": ("N", 4)}, weights)
    data = ChannelData(feeds_of(proto, tmp_path, x=np.broadcast_to(CHANNELS, (2, 6))), FloatRuns())
    assert {value.name: found.peak.tolist() for value, found in data.of(ModelIndex.of(Model(proto))).items()} == {
        "outer": [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    }
