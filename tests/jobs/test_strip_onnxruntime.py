"""Models that ONNX Runtime's quantizer made lose their Q/DQ, and keep their Relus, which it removes."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from support.metrics import sqnr_db
from support.paths import ROOT
from support.small import make_model, run

from qdqtool.jobs.normalize import normalized_model
from qdqtool.jobs.strip import strip_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest

WAYS: Mapping[str, dict[str, Any]] = {
    "defaults": {},
    "uint8": {"activation_type": QuantType.QUInt8, "per_channel": True},
    "reduce_range": {"activation_type": QuantType.QUInt8, "per_channel": True, "reduce_range": True},
    "QOperator": {"activation_type": QuantType.QUInt8, "quant_format": QuantFormat.QOperator, "per_channel": True},
}
SAMPLES = ROOT / "sample_models"
ENOUGH_DB = 25
"""What the rounding of 8-bit weights leaves at least."""


class Feeds(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self._samples: Iterator[dict[str, np.ndarray]] = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)


def stripped(source: Path, samples: list[dict[str, np.ndarray]], folder: Path, way: str) -> onnx.ModelProto:
    """The model, quantized by ONNX Runtime and stripped again."""
    quantize_static(source, folder / "q.onnx", Feeds(samples), **WAYS[way])
    quantized: Model = load_model(folder / "q.onnx")
    if way == "QOperator":
        quantized = normalized_model(quantized, DataRequest(samples=1)).model
    report = strip_model(quantized, folder / "s.onnx")
    assert report.warnings == ()
    return onnx.load(folder / "s.onnx")


def worst_db(source: Path, found: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> float:
    expected = run(onnx.load(source), feeds)
    return min(sqnr_db(left, right) or 0.0 for left, right in zip(expected, run(found, feeds), strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer"])
def test_a_sample_keeps_what_its_weights_keep(name: str, way: str, tmp_path: Path) -> None:
    source = SAMPLES / name / "model.onnx"
    with np.load(SAMPLES / name / "calibration.npz") as data:
        sample = {key: data[key][:16] for key in data.files}
    found = stripped(source, [sample], tmp_path, way)
    assert worst_db(source, found, sample) >= ENOUGH_DB
    # Operators such as QGemm have no Q/DQ form and stay, with ranges that hold what calibration saw.
    if way != "QOperator":
        random = np.random.default_rng(1)
        noise = {key: random.uniform(0, 1, x.shape).astype(np.float32) for key, x in sample.items()}
        assert worst_db(source, found, noise) >= ENOUGH_DB


@pytest.mark.parametrize("way", WAYS)
def test_relu6_comes_back(way: str, tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    weights = {f"w{i}": random.normal(size=(8, 8, 3, 3)).astype(np.float32) / 2 for i in range(3)}
    weights |= {"low": np.float32(0), "high": np.float32(6)}
    nodes = []
    for i in range(3):
        nodes.append(helper.make_node("Conv", [f"r{i}" if i else "x", f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes.append(helper.make_node("Clip", [f"c{i}", "low", "high"], [f"r{i + 1}"]))
    nodes.append(helper.make_node("GlobalAveragePool", ["r3"], ["y"]))
    model = make_model(nodes, {"x": (1, 8, 8, 8)}, {"y": (1, 8, 1, 1)}, weights)
    source = tmp_path / "m.onnx"
    onnx.save(model, source)
    samples = [{"x": random.normal(size=(1, 8, 8, 8)).astype(np.float32)} for _ in range(4)]
    found = stripped(source, samples, tmp_path, way)
    assert [node.op_type for node in found.graph.node].count("Clip") == 3
    bounds = {float(numpy_helper.to_array(t)) for t in found.graph.initializer if not t.dims}
    assert bounds == {0.0, 6.0}
    assert worst_db(source, found, {"x": 5 * samples[0]["x"]}) >= ENOUGH_DB
