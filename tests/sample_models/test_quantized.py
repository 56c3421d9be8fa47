"""The trained samples, quantized with nothing but their calibration data, are as good at their task as before."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.paths import ROOT
from support.small import run

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges import calibrators

SAMPLES = ROOT / "sample_models"
POINTS = 0.005
"""Accuracy that int8 may cost: half a point, 2.7 of 540 digits."""

PERPLEXITY = 0.01


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("quantized")
    outputs = {}
    for sample in ("digits_cnn", "digits_transformer", "digits_depthwise", "char_lm"):
        outputs[sample] = folder / f"{sample}.onnx"
        report = quantize_model(SAMPLES / sample / "model.onnx", SAMPLES / sample / "calibration.npz", outputs[sample])
        assert not report.degenerate
    return outputs


def labelled(sample: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    with np.load(SAMPLES / sample / "test.npz") as stored:
        data = dict(stored)
    return data, data.pop("labels")


def perplexity(scores: np.ndarray, labels: np.ndarray) -> float:
    top = scores.max(axis=-1, keepdims=True)
    log_sum = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
    return float(np.exp(np.mean(log_sum - np.take_along_axis(scores, labels[..., None], axis=-1)[..., 0])))


@pytest.mark.slow(reason="every method on trained samples")
@pytest.mark.parametrize("sample", ["digits_cnn", "digits_transformer", "digits_depthwise"])
def test_digits_lose_at_most_half_a_point(sample, quantized):
    data, labels = labelled(sample)
    before, after = (
        np.mean(run(str(path), data)[0].argmax(axis=1) == labels)
        for path in (SAMPLES / sample / "model.onnx", quantized[sample])
    )
    assert after >= before - POINTS


@pytest.mark.slow(reason="runs a language model on its test text")
def test_the_language_model_loses_at_most_one_percent_of_perplexity(quantized):
    data, labels = labelled("char_lm")
    before, after = (
        perplexity(run(str(path), data)[0], labels)
        for path in (SAMPLES / "char_lm" / "model.onnx", quantized["char_lm"])
    )
    assert after <= before * (1 + PERPLEXITY)


@pytest.mark.slow(reason="quantizes every sample model")
def test_every_conv_gemm_and_matmul_reads_int8_on_both_sides(quantized):
    """Those whose weight fills no tile of 16 stay float: the one that embeds columns, and ten classes."""
    for path in quantized.values():
        graph = onnx.load(path).graph
        small = {tensor.name for tensor in graph.initializer if len(tensor.dims) == 2 and min(tensor.dims) < 16}
        made = {node.output[0]: node.op_type for node in graph.node}
        weighted = [node for node in graph.node if node.op_type in {"Conv", "Gemm", "MatMul"}]
        weighted = [node for node in weighted if node.input[1] not in small]
        assert weighted
        for node in weighted:
            assert [made[name] for name in node.input[:2]] == ["DequantizeLinear"] * 2, node.name


def sqnr(before: np.ndarray, after: np.ndarray) -> float:
    noise = np.sum((before.astype(np.float64) - after) ** 2)
    return float(10 * np.log10(np.sum(before.astype(np.float64) ** 2) / noise))


@pytest.mark.slow(reason="quantizes every sample model")
def test_uneven_channels_cost_less_than_one_decibel(quantized, tmp_path):
    """The twin with channels of very uneven ranges is as good as the network itself, without being told."""
    folder = SAMPLES / "digits_depthwise"
    quantize_model(folder / "uneven.onnx", folder / "calibration.npz", tmp_path / "uneven.onnx")
    data, _ = labelled("digits_depthwise")
    (truth,) = run(str(folder / "model.onnx"), data)
    even, uneven = (
        sqnr(truth, run(str(path), data)[0]) for path in (quantized["digits_depthwise"], tmp_path / "uneven.onnx")
    )
    assert uneven > even - 1
    assert uneven > 33


@pytest.mark.slow(reason="runs a language model on its test text")
@pytest.mark.parametrize(("mode", "least"), [("int4", 30), ("int8-weight-only", 40), ("fp8", 22)])
def test_no_mode_collapses_on_uneven_channels(mode, least, tmp_path):
    """Without equalization int4 weights keep 9 dB and int8 ones 12."""
    folder = SAMPLES / "digits_depthwise"
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode))
    quantize_model(folder / "uneven.onnx", folder / "calibration.npz", tmp_path / "q.onnx", options)
    data, _ = labelled("digits_depthwise")
    (truth,), (found,) = (run(str(path), data) for path in (folder / "model.onnx", tmp_path / "q.onnx"))
    assert sqnr(truth, found) > least


@pytest.mark.slow(reason="every method on trained samples")
@pytest.mark.parametrize("method", calibrators.names())
def test_no_method_ruins_the_language_model(method, tmp_path):
    folder = SAMPLES / "char_lm"
    options = QuantizeOptions(recipe=Recipe(method=method))
    report = quantize_model(folder / "model.onnx", folder / "calibration.npz", tmp_path / "q.onnx", options)
    assert report.accuracy is not None
    assert report.accuracy.outputs[0].sqnr_db > 25
