"""Insert, validate, check and strip on a model with If, Loop, Scan, nested functions and metadata everywhere."""

import re
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import onnxruntime
import pytest
from onnx import numpy_helper
from support.generated_plan import write_generated_plan
from support.rawdiff import changed_fields
from support.rich_model import rich_feeds, rich_model
from support.small import run

from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import InsertOptions, InsertReport, insert_plan
from qdqtool.jobs.strip import strip_model
from qdqtool.jobs.validate import validate_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.options import WeightStorage
from qdqtool.models.transforms.opset import upgrade_opset


@pytest.fixture(params=[13, 15, 17])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "rich.onnx"
    path.write_bytes(rich_model(opset=request.param).SerializeToString(deterministic=True))
    return path


def quantized(source: Path, storage: WeightStorage) -> tuple[Path, InsertReport]:
    plan = write_generated_plan(load_model(source), source.parent)
    output = source.with_name(f"{storage.value}.onnx")
    return output, insert_plan(source, plan, output, InsertOptions(weights=storage))


@pytest.mark.parametrize("storage", WeightStorage)
def test_quantized_it_is_valid_and_runs(source: Path, storage: WeightStorage) -> None:
    path, report = quantized(source, storage)
    scopes = {pair.graph for pair in report.quantized}
    assert len(scopes) >= 5, scopes
    onnx.checker.check_model(path, full_check=True)
    assert onnx_ir.load(path).graph.num_nodes() > 0
    result = validate_model(path, targets=["onnx", "ort-cpu", "tensorrt"])
    errors = [f for model in result.models for t in model.targets for f in t.findings if f.severity == "error"]
    # TensorRT has no FusedMatMul, with and without quantization.
    assert [(error.code, error.op_type) for error in errors] == [("QT420", "FusedMatMul")]
    for flag in (True, False):
        for level in (
            onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        ):
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = level
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            assert all(np.isfinite(array).all() for array in session.run(None, rich_feeds(flag=flag)))


@pytest.mark.parametrize("storage", WeightStorage)
def test_every_qdq_is_checked_in_every_scope(source: Path, storage: WeightStorage) -> None:
    path, _ = quantized(source, storage)
    report = check_model(path, baseline=source)
    assert report.failures == ()
    assert report.qdq.checked + len(report.not_observed) == report.qdq.total
    assert report.qdq.checked >= 0.9 * report.qdq.total


ADDED = re.compile(r"\+.*\.(node|initializer)\[\w+_((Dequantize|Quantize)Linear_Output|scale|zero_point)(_\d+)?\]")
REWIRED = re.compile(r"[^+-].*\.node\[[^\]]*\]\.input")


def test_nothing_else_in_the_file_changes(source: Path) -> None:
    path, report = quantized(source, WeightStorage.QDQ)
    changes = changed_fields(onnx.load(source), onnx.load(path))
    assert [change for change in changes if not (ADDED.fullmatch(change) or REWIRED.fullmatch(change))] == []
    assert any(map(ADDED.fullmatch, changes))
    assert any(map(REWIRED.fullmatch, changes))
    assert report.opset_after == report.opset_before


@pytest.mark.parametrize("flag", [True, False])
def test_strip_gives_the_float_model_back(source: Path, flag: bool) -> None:
    path, report = quantized(source, WeightStorage.QDQ)
    strip_model(path, source.with_name("s.onnx"))
    assert onnx.load(source.with_name("s.onnx")) == upgrade_opset(load_model(source), report.opset_after).model.proto
    feeds = rich_feeds(flag=flag)
    for found, wanted in zip(run(str(source.with_name("s.onnx")), feeds), run(str(source), feeds), strict=True):
        assert found.tobytes() == wanted.tobytes()


def test_a_weight_shared_by_two_branches_is_stored_once(source: Path) -> None:
    path, report = quantized(source, WeightStorage.PACKED)
    shared = [pair for pair in report.quantized if pair.kind == "weight" and len(pair.consumers) > 1]
    assert shared
    model = onnx.load(path)
    names = [tensor.name for tensor in model.graph.initializer]
    assert len(names) == len(set(names))
    for pair in shared:
        assert names.count(f"{pair.tensor}_quantized") == 1
        assert numpy_helper.to_array(model.graph.initializer[names.index(f"{pair.tensor}_quantized")]).dtype == np.int8
