"""Engines of models in memory are those of the same model in a file."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import conv_model, matmul_model

import qdqtool
from qdqtool.engines.tensorrt.builder import BuildRefusedError

ROWS = np.random.default_rng(5).normal(size=(4, 3, 8, 8)).astype(np.float32)


@pytest.mark.builder
def test_a_model_in_memory_is_built_from_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    quantized = qdqtool.quantize_model(conv_model(), ROWS).output_model
    assert quantized is not None
    before = quantized.proto.SerializeToString()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    engine = tmp_path / "m.engine"
    report = qdqtool.build_engine(
        quantized.proto, engine, compute_capabilities=["8.9"], require_precision=["int8>=50%"]
    )
    assert (report.model, report.passed, report.targets) == ("", True, ("8.9",))
    assert report.achieved == {"int8": 2}
    assert engine.stat().st_size == report.bytes
    assert json.loads((tmp_path / "m.engine.manifest.json").read_text())["backend"] == report.backend
    assert list((tmp_path / "scratch").iterdir()) == []
    assert quantized.proto.SerializeToString() == before


@pytest.mark.builder
def test_shapes_come_from_arrays(tmp_path: Path):
    rows = np.ones((3, 8), np.float32)
    report = qdqtool.build_engine(
        matmul_model(), tmp_path / "m.engine", calib_data=[rows], compute_capabilities=["8.9"]
    )
    assert [(each.name, each.min, each.max) for each in report.profiles] == [("x", (1, 8), (1, 8))]


@pytest.mark.builder
def test_no_hint_names_a_file_that_is_gone(tmp_path: Path):
    quantized = qdqtool.quantize_model(conv_model(), ROWS).output_model
    assert quantized is not None
    for tensor in quantized.proto.graph.initializer:
        if tensor.name.endswith("scale"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(-1, np.float32), tensor.name))
    with pytest.raises(BuildRefusedError) as told:
        qdqtool.build_engine(quantized, tmp_path / "m.engine", backend="tensorrt-rtx")
    assert told.value.hint == "save the model to a file and build the file: then the message names a command for it"
    assert not (tmp_path / "m.engine").exists()
