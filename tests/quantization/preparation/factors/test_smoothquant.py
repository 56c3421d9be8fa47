"""The alpha that is searched helps on data that the search has not seen."""

import inspect
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.ort_verdict import ort_outputs
from support.small import make_model

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.ops.support.weights import StoredWeight
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe

CHANNELS, ROWS = 128, 4


def network(gains: np.ndarray) -> onnx.ModelProto:
    """A normalization with gains, in front of a product whose weights take gains above 4 back."""
    random = np.random.default_rng(0)
    weights = random.normal(size=(CHANNELS, 64)) / np.where(gains > 4, gains, 1)[:, np.newaxis]
    constants = {"g": gains.astype(np.float32), "w": weights.astype(np.float32)}
    nodes = [helper.make_node("LayerNormalization", ["x", "g"], ["n"]), helper.make_node("MatMul", ["n", "w"], ["y"])]
    return make_model(nodes, {"x": (ROWS, CHANNELS)}, {"y": (ROWS, 64)}, constants)


def unseen_db(model: onnx.ModelProto, samples: int, smoothquant: object, folder: Path) -> float:
    """Calibrate on some samples of normal values; the SQNR on many others."""
    random = np.random.default_rng(1)
    data, seen = folder / "calib.npz", random.normal(size=(samples, ROWS, CHANNELS))
    np.savez(data, x=seen.astype(np.float32))
    onnx.save(model, folder / "float.onnx")
    recipe = Recipe(preparation=Preparation(smoothquant=smoothquant))
    quantize_model(folder / "float.onnx", data, folder / "q.onnx", QuantizeOptions(recipe=recipe))
    quantized, signal, noise = onnx.load(folder / "q.onnx"), 0.0, 0.0
    for x in random.normal(size=(64, ROWS, CHANNELS)).astype(np.float32):
        expected, found = (ort_outputs(each, {"x": x})["y"].astype(np.float64) for each in (model, quantized))
        signal, noise = signal + np.square(expected).sum(), noise + np.square(expected - found).sum()
    return float(10 * np.log10(signal / noise))


@pytest.mark.parametrize("samples", [12, 48])
def test_few_samples_do_not_make_it_follow_single_peaks(tmp_path: Path, samples: int) -> None:
    """All channels are alike; what differs is the largest of few values. Smoothed, other values would be clipped."""
    even = network(np.exp(np.random.default_rng(2).normal(0, 0.25, CHANNELS)))
    assert unseen_db(even, samples, "auto", tmp_path) > unseen_db(even, samples, None, tmp_path) - 0.3


def test_an_outlier_channel_is_smoothed_all_the_same(tmp_path: Path) -> None:
    gains = np.ones(CHANNELS)
    gains[[3, 70]] = 40
    uneven = network(gains)
    assert unseen_db(uneven, 12, "auto", tmp_path) > unseen_db(uneven, 12, None, tmp_path) + 6


def test_a_search_reads_a_weight_three_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the noise that is expected, for its peaks, and to try alphas on: weights may be gigabytes."""
    read: list[object] = []
    values = StoredWeight.read

    def counted(weight: StoredWeight) -> np.ndarray:
        if inspect.stack()[1].function != "_shift":
            read.append(weight)
        return values(weight)

    monkeypatch.setattr(StoredWeight, "read", counted)
    gains = np.ones(CHANNELS)
    gains[[3, 70]] = 40
    unseen_db(network(gains), 12, "auto", tmp_path)
    assert len(read) == 3
    read.clear()
    unseen_db(network(gains), 12, 0.5, tmp_path)
    # Where alpha is given, only the peaks are needed.
    assert len(read) == 1
