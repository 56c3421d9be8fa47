"""Check on models that ONNX Runtime cannot run alone: the same gates, and who evaluated what."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.qdq import constant, pair_model
from support.small import conv_model, make_model

from qdqtool.data.request import DataRequest
from qdqtool.graph.model import Model
from qdqtool.jobs.check import check_model
from qdqtool.jobs.insert import insert_plan

T = TensorProto
LONG = DataRequest(input_shapes={"x": (4000,)}, samples=2)
W = np.random.default_rng(1).uniform(-1, 1, (64, 32)).astype(np.float32)
NVFP4 = {"format": "float4e2m1", "block_size": 16, "scale_format": "float8e4m3fn", "scale_scale": 0.002, "scale": 0.2}
MXFP8 = {"format": "float8e4m3fn", "block_size": 32, "scale_format": "float8e8m0", "scale": 2.0**-8}


def float_model(elem_type: int = T.FLOAT) -> onnx.ModelProto:
    w = W.astype(helper.tensor_dtype_to_np_dtype(elem_type))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], name="matmul"), helper.make_node("Relu", ["m"], ["y"])]
    return make_model(nodes, {"x": (2, 64)}, {"y": (2, 32)}, {"w": w}, elem_type=elem_type)


def inserted(folder: Path, model: onnx.ModelProto, *entries: dict[str, Any]) -> Path:
    onnx.save(model, folder / "float.onnx")
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": list(entries)}))
    insert_plan(folder / "float.onnx", folder / "p.json", folder / "q.onnx")
    return folder / "q.onnx"


@pytest.mark.parametrize("elem_type", [T.FLOAT, T.FLOAT16, T.BFLOAT16])
@pytest.mark.parametrize("keys", [NVFP4, MXFP8], ids=["nvfp4", "mxfp8"])
def test_inserted_two_level_models_are_checked_against_their_baseline(
    tmp_path: Path, keys: dict[str, Any], elem_type: int
) -> None:
    path = inserted(tmp_path, float_model(elem_type), {"tensor": "w", "axis": 0, **keys})
    report = check_model(path, baseline=tmp_path / "float.onnx")
    assert report.passed, report.failures
    assert report.reference.path == "onnxruntime+qdqtool"
    in_ort = "scale_scale" in keys and elem_type != T.BFLOAT16
    total = 1 + ("scale_scale" in keys)
    assert (report.qdq.total, report.qdq.checked, report.qdq.own) == (total, int(in_ort), total - in_ort)
    assert report.not_observed == ()
    (weight,) = [found for found in report.boundaries if found.tensor == "w"]
    assert 0.4 < weight.max_steps <= 0.51
    assert report.outputs[0].sqnr_db is not None
    assert 10 < report.outputs[0].sqnr_db < 50
    by = {node.evaluated_by for node in report.evaluated}
    assert by == ({"qdqtool", "onnxruntime-float32"} if elem_type == T.BFLOAT16 else {"qdqtool"})


def test_int8_nodes_beside_fp4_are_still_compared_with_onnxruntime(tmp_path: Path) -> None:
    path = inserted(
        tmp_path, float_model(), {"tensor": "w", "axis": 0, **NVFP4}, {"tensor": "x", "format": "int8", "scale": 0.03}
    )
    report = check_model(path)
    assert report.passed, report.failures
    assert (report.qdq.total, report.qdq.checked, report.qdq.own) == (4, 3, 1)
    (gate,) = [gate for gate in report.gates if gate.name == "own-core"]
    assert gate.detail == "3 of 4 agree, 1 that ONNX Runtime cannot run evaluated by our own core alone"


@pytest.mark.parametrize("quantized", [T.FLOAT4E2M1, T.FLOAT6E2M3, T.INT8])
@pytest.mark.parametrize("float_type", [T.FLOAT, T.BFLOAT16])
def test_a_dq_that_does_not_undo_its_q_fails(quantized: int, float_type: int) -> None:
    good, bad = (pair_model(quantized, float_type=float_type, scale=0.5) for _ in range(2))
    bad.proto.graph.initializer.append(constant("by_hand", 0.53125, float_type))
    bad.proto.graph.node[1].input[1] = "by_hand"
    for model in (good, bad):
        model.proto.opset_import[0].version = 28
        report = check_model(model, data=LONG)
        assert report.passed is (model is good)
        assert report.qdq.own == 2
    assert "'dequant' does not undo 'quant'" in report.failures[0]


def test_a_nan_behind_the_cut_is_found(tmp_path: Path) -> None:
    path = inserted(tmp_path, float_model(), {"tensor": "w", "axis": 0, **NVFP4})
    model = onnx.load(path)
    relu = next(node for node in model.graph.node if node.op_type == "Relu")
    relu.op_type, relu.name = "Log", "the_log"
    report = check_model(Model(model))
    assert not report.passed
    assert "the_log" in report.failures[0]


def test_a_newer_stamp_changes_no_number() -> None:
    model = Model(conv_model(opset=21, ir_version=10))
    newer = Model(conv_model(opset=27, ir_version=13))
    report = check_model(newer, baseline=model)
    assert report.passed
    assert report.outputs[0].exact
    assert report.evaluated == ()
