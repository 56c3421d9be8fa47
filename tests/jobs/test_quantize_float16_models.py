"""Models that are float16 already: quantized as well as their float32 originals, with float16 scales and no Casts."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.half import casts_behind_a_dq, in_half, require_valid
from support.paths import ROOT
from support.small import make_model

from qdqtool.engines.build.options import BuildOptions
from qdqtool.engines.build.profiles import ShapeOptions
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import DataRequest, FileData, RandomData

SAMPLES = ROOT / "sample_models"
SHAPES = {
    "yunet_n_dynamic": {"input": (1, 3, 320, 320)},
    "silero_vad_16k_op15": {"input": (1, 576), "state": (2, 1, 128)},
}


def by_onnxruntime(model):
    from onnxruntime.transformers.float16 import convert_float_to_float16

    return convert_float_to_float16(model)


def by_ourselves(model):
    return in_half(model)[0]


def scale_types(model):
    pairs = [node for node in model.graph.node if node.op_type in {"QuantizeLinear", "DequantizeLinear"}]
    kinds = {tensor.name: tensor.data_type for tensor in model.graph.initializer}
    return {kinds[node.input[1]] for node in pairs}


@pytest.mark.slow(reason="quantizes twice")
@pytest.mark.parametrize("sample", ["digits_cnn", "digits_depthwise"])
def test_thresholds_are_those_of_the_float32_model(sample, tmp_path, monkeypatch):
    """float16 values all lie on bounds of histogram bins, the largest too."""
    # The noise of float16 outputs may choose another method: max gains 0.4 dB for the float32 digits_cnn, -0.2 in half.
    monkeypatch.setattr("qdqtool.jobs.quantize.try_methods", lambda *_: None)
    folder = SAMPLES / sample
    onnx.save(by_ourselves(onnx.load(folder / "model.onnx")), tmp_path / "half.onnx")
    recipe = Recipe(preparation=Preparation(equalize=False, smoothquant=None))
    scales = []
    for source in (folder / "model.onnx", tmp_path / "half.onnx"):
        report = quantize_model(source, folder / "calibration.npz", tmp_path / "q.onnx", QuantizeOptions(recipe=recipe))
        scales.append([pair.scale_max for pair in report.quantized if pair.kind == "activation"])
    assert len(scales[0]) > 5
    assert scales[1] == pytest.approx(scales[0], rel=0.02)


@pytest.mark.slow(reason="quantizes and builds every mode")
@pytest.mark.parametrize("mode", ["int8", "fp8"])
def test_the_float16_model_loses_no_more_than_the_float32_model(mode, tmp_path):
    folder = SAMPLES / "digits_transformer"
    onnx.save(by_ourselves(onnx.load(folder / "model.onnx")), tmp_path / "float16.onnx")
    data = FileData(path=folder / "calibration.npz", samples=32)
    kept = []
    for name, source in (("full", folder / "model.onnx"), ("half", tmp_path / "float16.onnx")):
        report = quantize_model(
            source, data, tmp_path / f"{name}.onnx", QuantizeOptions(recipe=Recipe(quantize_mode=mode))
        )
        assert "QP105" not in {finding.code for finding in report.findings}
        request = DataRequest(path=folder / "test.npz", samples=24)
        checked = check_model(tmp_path / f"{name}.onnx", baseline=source, data=request)
        assert checked.passed, checked.failures
        kept.append(np.mean([place.sqnr_db for place in checked.boundaries]))
    assert kept[1] > kept[0] - 0.5
    half = onnx.load(tmp_path / "half.onnx")
    require_valid(half)
    assert scale_types(half) == {TensorProto.FLOAT16}


def test_a_dead_channel_is_not_rescaled_beyond_float16(tmp_path):
    """It is silent, and read by weights of 30,000: to make those as small as the others, its bias would go to -1e6."""
    random = np.random.default_rng(9)
    first, second = (random.standard_normal((32, 32, 1, 1)).astype(np.float32) for _ in range(2))
    bias = np.zeros(32, np.float32)
    bias[5] = -100
    first[::2] *= 16
    second[:, 5] *= 1e4
    nodes = [
        helper.make_node("Conv", ["x", "v", "b"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Conv", ["r", "w"], ["y"], name="second"),
    ]
    shape = (1, 32, 8, 8)
    model = make_model(nodes, {"x": shape}, {"y": shape}, {"v": first, "w": second, "b": bias})
    onnx.save(by_ourselves(model), tmp_path / "half.onnx")
    np.savez(tmp_path / "d.npz", x=random.standard_normal((32, *shape)).astype(np.float32))
    report = quantize_model(tmp_path / "half.onnx", tmp_path / "d.npz", tmp_path / "q.onnx")
    (equalization,) = [step for step in report.preparation if step.step == "equalization"]
    assert equalization.applied
    (output,) = report.accuracy.outputs
    assert output.sqnr_db > 30


@pytest.mark.real
@pytest.mark.builder
@pytest.mark.parametrize("convert", [by_onnxruntime, by_ourselves])
def test_real_models_in_float16_build_with_every_planned_node_in_its_type(real_model, convert, tmp_path):
    onnx.save(convert(onnx.load(real_model)), tmp_path / "half.onnx")
    shapes = SHAPES.get(real_model.stem, {})
    options = QuantizeOptions(recipe=Recipe(input_shapes=shapes))
    report = quantize_model(tmp_path / "half.onnx", RandomData(samples=4), tmp_path / "q.onnx", options)
    # An If that is replaced by its branch leaves the Casts of the branch's float32 outputs.
    assert {finding.code for finding in report.findings if finding.severity != "info"} <= {"QN501"}
    written = onnx.load(tmp_path / "q.onnx")
    assert not casts_behind_a_dq(written)
    assert TensorProto.FLOAT16 in scale_types(written)
    built = build_engine(
        tmp_path / "q.onnx",
        tmp_path / "engine",
        backend="tensorrt-rtx",
        options=BuildOptions(compute_capabilities=("8.9",), shapes=ShapeOptions(fixed=shapes)),
    )
    assert built.achieved == built.planned
