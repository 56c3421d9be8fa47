"""What quantize says that it cost, against ONNX Runtime and plain NumPy."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from rich.console import Console
from support.small import conv_model, make_model, run

from qdqtool.checking import accuracy
from qdqtool.checking.accuracy import MIN_SAMPLES, SLICE
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import CachedRanges, QuantizeOptions, quantize_model
from qdqtool.planning.recipe import Recipe
from qdqtool.report.text._accuracy import print_accuracy


def images(count: int = 40) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, 3, 8, 8)).astype(np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=images())
    return tmp_path / "data.npz"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(conv_model(), tmp_path / "float.onnx")
    return tmp_path / "float.onnx"


def decibels(reference: np.ndarray, found: np.ndarray) -> float:
    reference, found = reference.astype(np.float64), found.astype(np.float64)
    return float(10 * np.log10(np.sum(reference**2) / np.sum((reference - found) ** 2)))


def rounded(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(x / scale), -128, 127).astype(np.float32) * scale


def test_the_sqnr_of_an_output_is_that_of_both_models_in_onnx_runtime(model, data, tmp_path):
    report = quantize_model(model, data, tmp_path / "q.onnx")
    few = images()[:SLICE]
    expected = np.concatenate([run(str(model), {"x": image[None]})[0] for image in few])
    found = np.concatenate([run(str(tmp_path / "q.onnx"), {"x": image[None]})[0] for image in few])
    assert report.accuracy is not None
    (output,) = report.accuracy.outputs
    assert (report.accuracy.samples, output.name, output.exact, output.finite) == (SLICE, "y", False, True)
    assert output.sqnr_db == pytest.approx(decibels(expected, found), abs=2e-3)  # default session against reference


def test_an_output_whose_shape_depends_on_the_values_is_compared_where_it_can_be(tmp_path):
    """The values of x W above 0.5, where int8 rounds some of the second sample to the other side."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["a", "w"], ["b"]),
        helper.make_node("Greater", ["b", "half"], ["keep"]),
        helper.make_node("Reshape", ["keep", "flat"], ["keeps"]),
        helper.make_node("Compress", ["b", "keeps"], ["y"]),
    ]
    weights = {"w": np.eye(16, dtype=np.float32), "half": np.float32(0.5), "flat": np.array([-1])}
    onnx.save(make_model(nodes, {"x": (1, 16)}, {"y": ("kept",)}, weights), tmp_path / "kept.onnx")
    x = np.stack([np.r_[np.full(8, 1), np.full(8, -1)], np.linspace(0.4999, 0.5001, 16)]).astype(np.float32)
    np.savez(tmp_path / "kept.npz", x=x)
    report = quantize_model(tmp_path / "kept.onnx", tmp_path / "kept.npz", tmp_path / "q.onnx")
    assert report.accuracy is not None
    (output,) = report.accuracy.outputs
    assert (output.other_shapes, output.exact) == (1, False)
    printed = Console(record=True, width=200, file=io.StringIO())
    print_accuracy(report.accuracy, printed)
    assert "; another shape than the float model's in 1 sample" in printed.export_text()
    kept = tmp_path / "kept.onnx"
    checked = check_model(tmp_path / "q.onnx", baseline=kept, data=tmp_path / "kept.npz")
    assert [each.tensor for each in checked.not_observed] == ["y"]
    assert "its shape differs for 1 of the samples" in checked.not_observed[0].reason


def test_a_model_of_integer_outputs_says_that_there_is_nothing_to_compare(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("ArgMax", ["a"], ["y"], axis=1)]
    proto = make_model(nodes, {"x": (1, 16)}, {"y": (1, 1)}, {"w": np.eye(16, dtype=np.float32)})
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(proto, tmp_path / "label.onnx")
    np.savez(tmp_path / "label.npz", x=np.random.default_rng(3).normal(size=(2, 16)).astype(np.float32))
    report = quantize_model(tmp_path / "label.onnx", tmp_path / "label.npz", tmp_path / "q.onnx")
    printed = Console(record=True, width=200, file=io.StringIO())
    print_accuracy(report.accuracy, printed)
    assert "no output has float values to compare" in printed.export_text()


def test_what_is_nan_in_the_float_model_is_counted_and_told(tmp_path):
    """log(x W) beside x W: NaN where x W is negative, in both models alike but near 0."""
    eye = np.eye(16, dtype=np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Log", ["a"], ["logs"]),
        helper.make_node("MatMul", ["a", "w"], ["y"]),
    ]
    proto = make_model(nodes, {"x": (1, 16)}, {"y": (1, 16), "logs": (1, 16)}, {"w": eye})
    onnx.save(proto, tmp_path / "logs.onnx")
    x = np.tile(np.where(np.arange(16) < 4, -1, 1).astype(np.float32), (3, 1))
    np.savez(tmp_path / "logs.npz", x=x)
    report = quantize_model(tmp_path / "logs.onnx", tmp_path / "logs.npz", tmp_path / "q.onnx")
    assert report.accuracy is not None
    found = {output.name: (output.finite, output.float_nonfinite) for output in report.accuracy.outputs}
    assert found == {"y": (True, 0), "logs": (True, 12)}
    printed = Console(record=True, width=200, file=io.StringIO())
    print_accuracy(report.accuracy, printed)
    assert "; NaN or infinite in the float model: 12 elements" in printed.export_text()


def test_the_worst_pairs_come_first_each_with_its_own_loss(model, data, tmp_path):
    report = quantize_model(model, data, tmp_path / "q.onnx")
    assert report.accuracy is not None
    scales = {pair.tensor: np.float32(pair.scale_max) for pair in report.quantized if pair.scales == 1}
    few, weights = images()[:SLICE], {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer}
    inner = onnx.load(model)
    inner.graph.output.append(onnx.ValueInfoProto(name="r"))
    relu = np.concatenate([run(inner, {"x": image[None]})[1] for image in few])
    expected = {"x": decibels(few, rounded(few, scales["x"])), "r": decibels(relu, rounded(relu, scales["r"]))}
    for name in ("w", "v"):
        step = np.abs(weights[name]).max(axis=(1, 2, 3), keepdims=True) / np.float32(127)
        expected[name] = decibels(weights[name], rounded(weights[name], step))
    found = {tensor.tensor: tensor.sqnr_db for tensor in report.accuracy.worst}
    assert found == pytest.approx(expected, abs=2e-3)
    assert list(found.values()) == sorted(found.values())


def test_without_data_nothing_is_measured_and_the_report_says_so(model, data, tmp_path):
    calibrate_to_file(model, data, tmp_path / "ranges.json")
    report = quantize_model(model, CachedRanges(path=tmp_path / "ranges.json"), tmp_path / "q.onnx")
    assert report.accuracy is None


def test_fewer_samples_than_the_slice_are_all_used(model, tmp_path):
    np.savez(tmp_path / "few.npz", x=images(2))
    report = quantize_model(model, tmp_path / "few.npz", tmp_path / "q.onnx")
    assert report.accuracy is not None
    assert report.accuracy.samples == 2


def test_a_large_model_is_run_on_fewer_samples(model, data, tmp_path, monkeypatch):
    monkeypatch.setattr(accuracy, "ENOUGH", 1)
    report = quantize_model(model, data, tmp_path / "q.onnx")
    assert report.accuracy is not None
    assert report.accuracy.samples == MIN_SAMPLES
    assert len(report.accuracy.worst) == 4


def test_an_output_that_is_ruined_is_shown_as_such(tmp_path):
    """Adding and taking away a large number leaves nothing of small values but rounding."""
    weights = {"w": np.full((16, 16), 1e4, np.float32), "minus": np.full((16, 16), -1e4, np.float32)}
    weights["minus"][0, 0] += 1
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("MatMul", ["x", "minus"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    onnx.save(make_model(nodes, {"x": (4, 16)}, {"y": (4, 16)}, weights), tmp_path / "float.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(0).normal(size=(4, 4, 16)).astype(np.float32))
    report = quantize_model(tmp_path / "float.onnx", tmp_path / "data.npz", tmp_path / "q.onnx")
    assert report.accuracy is not None
    sqnr = report.accuracy.outputs[0].sqnr_db
    assert sqnr is not None
    assert sqnr < 3


def test_formats_that_onnx_runtime_lacks_are_measured_by_our_own_core(model, data, tmp_path):
    options = QuantizeOptions(recipe=Recipe(quantize_mode="float4e2m1", target="onnx"))
    report = quantize_model(model, data, tmp_path / "q.onnx", options)
    assert report.accuracy is not None
    assert not report.accuracy.problem
    assert 0 < dataclasses.asdict(report.accuracy.outputs[0])["sqnr_db"] < 30
