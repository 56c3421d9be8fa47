"""Corrected biases give outputs the mean that they had before the weights were rounded."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from support.small import make_model, run

from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.models.graph.model import Model
from qdqtool.numerics.product import ProductLayout
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.bias_correction import decode_means, encode_means, mean_shift
from qdqtool.quantization.preparation.prepare import prepare_as_recorded
from qdqtool.quantization.ranges.types import PreparationStep


@pytest.mark.parametrize("inputs_first", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_the_shift_is_the_error_of_the_weight_times_the_means(groups, inputs_first):
    rng = np.random.default_rng(groups)
    shape = (4, 3, 2, 2)
    weight, rounded = rng.normal(size=(2, *shape))
    layout = ProductLayout(shape, groups, inputs_first)
    means = rng.normal(size=layout.inputs)
    expected = np.zeros(layout.outputs)
    ins, outs = layout.inputs // groups, layout.outputs // groups
    for out in range(layout.outputs):
        group = out // outs
        for i in range(ins):
            channel = group * ins + i
            place = (channel, out % outs) if inputs_first else (out, i)
            expected[out] += float(np.sum(rounded[place] - weight[place])) * means[channel]
    assert mean_shift(weight, rounded, layout, means) == pytest.approx(expected, rel=1e-12)


def layer(kind: str, *, bias: bool) -> onnx.ModelProto:
    """One layer, from 24 channels to 16."""
    rng = np.random.default_rng(4)
    weight = rng.normal(size=(16, 24, 3, 3) if kind == "Conv" else (24, 16)).astype(np.float32)
    weights = {"w": weight} | ({"b": rng.normal(size=16).astype(np.float32)} if bias else {})
    inputs = ["x", "w", *(["b"] if bias and kind != "MatMul" else [])]
    nodes = [helper.make_node(kind, inputs, ["m" if kind == "MatMul" and bias else "y"], name="layer")]
    if kind == "MatMul" and bias:
        nodes.append(helper.make_node("Add", ["m", "b"], ["y"]))
    shapes = ((24, 8, 8), (16, 6, 6)) if kind == "Conv" else ((24,), (16,))
    return make_model(nodes, {"x": ("N", *shapes[0])}, {"y": ("N", *shapes[1])}, weights)


def data(kind: str) -> np.ndarray:
    rng = np.random.default_rng(5)
    return (rng.normal(size=(32, 24, 8, 8) if kind == "Conv" else (32, 24)) + 2).astype(np.float32)


def mean_errors(folder: Path, x: np.ndarray) -> np.ndarray:
    (before,), (after,) = (run(str(folder / name), {"x": x}) for name in ("m.onnx", "q.onnx"))
    error = np.moveaxis(after.astype(np.float64) - before, 1, 0)
    return np.abs(error.reshape(len(error), -1).mean(axis=1))


def quantized(kind: str, folder: Path, *, bias: bool, correct: bool, mode: str = "int8"):
    onnx.save(layer(kind, bias=bias), folder / "m.onnx")
    np.savez(folder / "data.npz", x=data(kind))
    recipe = Recipe(quantize_mode=mode, preparation=Preparation(bias_correction=correct))
    return quantize_model(folder / "m.onnx", folder / "data.npz", folder / "q.onnx", QuantizeOptions(recipe=recipe))


@pytest.mark.parametrize(
    ("kind", "bias"), [("Conv", True), ("Conv", False), ("Gemm", True), ("Gemm", False), ("MatMul", True)]
)
@pytest.mark.parametrize("mode", ["int8", "fp8"])
def test_the_mean_of_every_output_comes_back(kind, bias, mode, tmp_path):
    assert quantized(kind, tmp_path, bias=bias, correct=False, mode=mode).corrected == ()
    before = mean_errors(tmp_path, data(kind))
    assert quantized(kind, tmp_path, bias=bias, correct=True, mode=mode).corrected == ("layer",)
    after = mean_errors(tmp_path, data(kind))
    # what is left comes from rounding activations, whose mean bias correction does not touch
    assert np.sqrt(np.mean(after**2)) < 0.5 * np.sqrt(np.mean(before**2))


def test_a_matmul_without_a_bias_stays_as_it_is(tmp_path):
    assert quantized("MatMul", tmp_path, bias=False, correct=True).corrected == ()


def test_a_weight_only_mode_with_data_corrects_too(tmp_path):
    quantized("Conv", tmp_path, bias=True, correct=False, mode="int8-weight-only")
    before = mean_errors(tmp_path, data("Conv"))
    report = quantized("Conv", tmp_path, bias=True, correct=True, mode="int8-weight-only")
    assert report.corrected == ("layer",)
    # activations are not rounded; what is left is that every tap of the kernel sees another part of the image
    assert mean_errors(tmp_path, data("Conv")).max() < 0.05 * before.max()


def test_no_initializer_is_left_behind(tmp_path):
    quantized("Conv", tmp_path, bias=True, correct=True)
    graph = onnx.load(tmp_path / "q.onnx").graph
    read = {name for node in graph.node for name in node.input}
    assert {tensor.name for tensor in graph.initializer} <= read


def test_ranges_keep_the_means_and_options_may_leave_them_aside(tmp_path):
    onnx.save(layer("Conv", bias=True), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=data("Conv"))
    calibrate_to_file(tmp_path / "m.onnx", tmp_path / "data.npz", tmp_path / "r.json")
    cache = CachedRanges(path=tmp_path / "r.json")
    assert quantize_model(tmp_path / "m.onnx", cache, tmp_path / "q.onnx").corrected == ("layer",)
    options = QuantizeOptions(recipe=Recipe(preparation=Preparation(bias_correction=False)))
    assert quantize_model(tmp_path / "m.onnx", cache, tmp_path / "q.onnx", options).corrected == ()


def test_means_are_read_as_they_were_written():
    means = {((), "x"): np.array([0.1, -2.0]), (("if", "then"), "y"): np.array([3.0])}
    step = encode_means(means)
    again = decode_means(step.parameters)
    assert {key: by.tolist() for key, by in again.items()} == {key: by.tolist() for key, by in means.items()}


@pytest.mark.parametrize("parameters", [{}, {"inputs": [{"tensor": "x", "scope": [], "means": ["a"]}]}, {"more": 1}])
def test_malformed_means_are_refused(parameters):
    with pytest.raises(UsageError, match="malformed parameters of step 'bias-correction'"):
        prepare_as_recorded(Model(layer("Conv", bias=True)), [PreparationStep("bias-correction", parameters)])


def test_means_of_other_channels_correct_nothing(tmp_path):
    onnx.save(layer("Gemm", bias=True), tmp_path / "m.onnx")
    np.savez(tmp_path / "data.npz", x=data("Gemm"))
    calibrate_to_file(tmp_path / "m.onnx", tmp_path / "data.npz", tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    (tmp_path / "r.json").write_text(text.replace('"means": [', '"means": [\n 1.0,', 1))
    report = quantize_model(tmp_path / "m.onnx", CachedRanges(path=tmp_path / "r.json"), tmp_path / "q.onnx")
    assert report.corrected == ()
    biases = [numpy_helper.to_array(t) for t in onnx.load(tmp_path / "q.onnx").graph.initializer if t.name == "b"]
    assert len(biases) == 1


@pytest.mark.parametrize(("size", "pads", "is_corrected"), [(1, 1, False), (2, 1, True), (8, 1, True), (3, 0, True)])
def test_a_conv_that_reads_mostly_padding_is_not_corrected(size: int, pads: int, is_corrected: bool, tmp_path: Path):
    """At one position, eight of nine taps read zeros, whatever the mean of the input is."""
    rng, shape = np.random.default_rng(4), (1, 16, size, size)
    weights = {"w": rng.normal(size=(16, 16, 3, 3)).astype(np.float32), "b": np.zeros(16, np.float32)}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv", pads=[pads] * 4)
    onnx.save(make_model([node], {"x": shape}, {"y": (1, 16, None, None)}, weights), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=rng.uniform(1, 2, (16, *shape[1:])).astype(np.float32))
    report = quantize_model(tmp_path / "m.onnx", tmp_path / "d.npz", tmp_path / "q.onnx")
    assert report.corrected == (("conv",) if is_corrected else ())
