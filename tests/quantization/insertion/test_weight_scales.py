"""The scales by channel that a report states, against NumPy on the weights and on the written scales."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from support.small import conv_model, make_model

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.insertion import weight_scales as module
from qdqtool.quantization.insertion.weight_scales import by_channel
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.report import WeightScales

AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)


def quantized(proto: onnx.ModelProto, folder: Path, mode: str, **recipe: object) -> dict[str, WeightScales]:
    onnx.save(proto, folder / "float.onnx")
    options = QuantizeOptions(recipe=Recipe(preparation=AS_IT_IS, quantize_mode=mode, **recipe))
    report = quantize_model(folder / "float.onnx", None, folder / "q.onnx", options)
    return {each.tensor: each for each in report.weight_scales}


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split()]


def product(weight: np.ndarray) -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    return make_model([node], {"x": (4, weight.shape[0])}, {"y": (4, weight.shape[1])}, {"w": weight})


def test_each_channel_has_the_scale_of_its_largest_weight(tmp_path):
    proto = conv_model()
    weights = numpy_helper.to_array(proto.graph.initializer[0]).copy()
    weights[2] = 0
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights, "w"))
    found = quantized(proto, tmp_path, "int8-weight-only")

    assert found.keys() == {"w", "v"}
    w = found["w"]
    assert (w.graph, w.format, w.axis, w.channels, w.grouped, w.dead, w.largest) == ("", "int8", 0, 4, 1, 1, "")
    expected = np.abs(weights).max(axis=(1, 2, 3)) / 127
    assert numbers(w.smallest) == pytest.approx(expected, rel=6e-4)
    assert numbers(w.smallest)[2] == 0
    assert found["v"].dead == 0


@pytest.mark.parametrize("mode", ["int4", "nvfp4"])
def test_a_channel_with_blocks_has_its_smallest_and_its_largest_scale(mode, tmp_path):
    weight = np.random.default_rng(0).normal(size=(256, 24)).astype(np.float32)
    weight *= np.linspace(1, 8, 24, dtype=np.float32)
    weight[:, 5] = 0
    weight[:128, 7] = 0
    w = quantized(product(weight), tmp_path, mode)["w"]
    stored = {each.name: each for each in onnx.load(tmp_path / "q.onnx").graph.initializer}
    scale = np.abs(block_scales(stored))
    live = np.abs(weight).reshape(len(scale), -1, 24).max(axis=1) > 0

    assert (w.format, w.axis, w.channels, w.grouped, w.dead) == (
        {"int4": "int4", "nvfp4": "float4e2m1"}[mode], 1, 24, 1, 1,
    )  # fmt: skip
    low, high = numbers(w.smallest), numbers(w.largest)
    for channel in range(24):
        found = scale[live[:, channel], channel].tolist() or [0.0]
        assert low[channel] == pytest.approx(min(found), rel=6e-4)
        assert high[channel] == pytest.approx(max(found), rel=6e-4)


def block_scales(stored: dict[str, onnx.TensorProto]) -> np.ndarray:
    """The scales of the weight, read from the file; those of nvfp4 are codes of float8e4m3fn with a scale."""
    if "w_scale" in stored:
        return numpy_helper.to_array(stored["w_scale"])
    codes = numpy_helper.to_array(stored["w_scale_quantized"]).astype(np.float32)
    return codes * numpy_helper.to_array(stored["w_scale_scale"])


def test_one_scale_for_a_tensor_is_left_out(tmp_path):
    assert quantized(product(np.ones((32, 1), np.float32)), tmp_path, "int8-weight-only") == {}


def test_many_weights_have_fewer_points(tmp_path, monkeypatch):
    weight = np.random.default_rng(0).normal(size=(64, 600)).astype(np.float32)
    monkeypatch.setattr(module, "ALL_POINTS", 100)
    w = quantized(product(weight), tmp_path, "int8-weight-only")["w"]

    assert (w.grouped, w.channels) == (6, 600)
    scale = (np.abs(weight).max(axis=0) / 127).reshape(100, 6)
    assert numbers(w.smallest) == pytest.approx(scale.min(axis=1), rel=6e-4)
    assert numbers(w.largest) == pytest.approx(scale.max(axis=1), rel=6e-4)


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 12), st.integers(0, 1), st.integers(0, 2**32 - 1))
def test_points_are_the_extremes_of_neighbouring_channels(channels, others, points, axis, seed):
    random = np.random.default_rng(seed)
    scale = random.uniform(0.1, 2, (channels, others))
    scale[random.random((channels, others)) < 0.3] = np.nan
    found = by_channel(scale if axis == 0 else scale.T, axis, points)

    assert found.channels == channels
    assert found.dead == sum(all(np.isnan(row)) for row in scale)
    assert len(found.smallest) == len(found.largest) <= points
    for point, (low, high) in enumerate(zip(found.smallest, found.largest, strict=True)):
        rows = scale[point * found.grouped : (point + 1) * found.grouped].tolist()
        live = [[each for each in row if not np.isnan(each)] for row in rows]
        assert low == min(min(row, default=0) for row in live)
        assert high == max(max(row, default=0) for row in live)
