"""The page of `make foreign`: samples, rows written and read again, promises, tables, and the way to an engine."""

import importlib.util
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from support.small import make_model

from benchmarks.foreign_models import baseline, make, page
from benchmarks.foreign_models.chain import AS_IT_IS, UNCHANGED, Chain, named
from benchmarks.foreign_models.row import Route, Row, from_json
from benchmarks.foreign_models.samples import CALIBRATED_ON, FLOAT, SAMPLES, TEST_SAMPLES, Reader, Sample
from benchmarks.foreign_models.tools import TOOLS, titled
from benchmarks.networks import commands, storage
from benchmarks.networks.row import Left

ROW = Row(
    "brevitas.int8",
    version="brevitas 1.0",
    layers=9,
    before_db=30.04,
    before_by="ONNX Runtime",
    findings=["7 QL312"],
    attempts=[Route(AS_IT_IS, "validate refuses | it"), Route("fix", planned=9, achieved=8)],
    way="fix",
    after_db=30.0,
    change_db=float("inf"),
    planned=9,
    achieved=8,
    fallbacks=[Left("MatMul", "no kernel", 1)],
)
REFUSED = replace(ROW, name="quark.int8", attempts=[ROW.attempts[0], Route("fix", UNCHANGED)], way="", achieved=0)
MISSING = Row("nncf.nf4", missing="ValueError: no\n\x1b[96m such mode")


def test_a_row_is_read_as_it_was_written(tmp_path):
    assert from_json(ROW.to_json()) == ROW
    storage.write(tmp_path / "rows.json", {ROW.name: ROW, MISSING.name: MISSING})
    assert storage.read(tmp_path / "rows.json", from_json) == {ROW.name: ROW, MISSING.name: MISSING}


@pytest.mark.parametrize("row", [ROW, REFUSED, MISSING, replace(ROW, way="unsafe fix", change_db=20.0)])
def test_a_good_row_breaks_no_promise(row):
    assert list(page.problems(row)) == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (Row("aimet.int8", crash="Killed"), "aimet.int8: Killed"),
        (replace(ROW, change_db=20.0), "brevitas.int8: 'fix' changes numbers, 20.0 dB"),
        (
            replace(REFUSED, attempts=[Route("fix", "TensorRT for RTX refuses the model: why")]),
            "quark.int8, fix: validate passes, and TensorRT for RTX refuses the model: why",
        ),
    ],
)
def test_every_broken_promise_is_told(row, problem):
    assert list(page.problems(row)) == [problem]


def test_what_the_parser_says_is_a_finding():
    refused = Route(AS_IT_IS, "TensorRT for RTX refuses node 'a' (Quant): no such operator")
    assert list(page.problems(replace(REFUSED, attempts=[refused], findings=["3 QE701"]))) == []


def test_every_tool_has_a_maker():
    names = [tool.name for tool in TOOLS]
    assert len(set(names)) == len(names)
    for tool in TOOLS:
        assert importlib.util.find_spec(f"benchmarks.foreign_models.makers.{tool.name}") is not None
        assert tool.requirements
        assert titled(tool.name) == tool.title


def test_the_first_cause_of_a_failure_is_told(tmp_path):
    def write(_):
        try:
            return {}["why"]
        except KeyError as error:
            raise ValueError("advice") from error

    sample = Sample("none", tmp_path / "tool.mode.onnx")
    sample.path.touch()
    assert make.made(sample, write) == "KeyError: 'why'"
    assert [path.name for path in tmp_path.iterdir()] == ["tool.mode.failed"]
    assert make.made(sample, lambda each: each.path.touch()) == ""
    assert [path.name for path in tmp_path.iterdir()] == ["tool.mode.onnx"]


def test_a_sample_has_its_float_model_and_inputs(tmp_path):
    (tmp_path / FLOAT).mkdir()
    negated = make_model([helper.make_node("Neg", ["x"], ["y"])], {"x": (1, 4)}, {"y": (1, 4)}, {})
    onnx.save(negated, tmp_path / FLOAT / "mlp.onnx")
    sample = Sample("mlp", tmp_path / "tool.mode.onnx")
    sample.prepare()
    assert {path.name for path in tmp_path.glob("tool.*")} == {
        "tool.mode.float.onnx",
        "tool.mode.calib.npz",
        "tool.mode.test.npz",
    }
    inputs = list(sample.calibration())
    assert len(inputs) == CALIBRATED_ON
    assert np.array_equal(inputs[0]["x"], SAMPLES["mlp"](np.random.default_rng(7))["x"])
    assert np.load(sample.data_path("test"))["x"].shape[0] == TEST_SAMPLES
    assert sample.float_model(19).opset_import[0].version == 19
    reader = Reader(inputs)
    assert [reader.get_next() is None for _ in range(CALIBRATED_ON + 1)] == [False] * CALIBRATED_ON + [True]
    reader.rewind()
    assert reader.get_next() is inputs[0]


def test_kernels_and_findings_are_counted():
    nodes = [
        {"op_type": "Conv", "planned": "int8", "actual": "float32", "reason": None},
        {"op_type": "Conv", "planned": "int8", "actual": "int8", "reason": None},
    ]
    report = {"planned": {"int8": 2}, "achieved": {"int8": 1}, "nodes": nodes}
    assert commands.kernels(report) == (2, 1, [Left("Conv", "", 1)])
    found = [
        {"code": code, "effect": effect} for code, effect in (("QP2", "silent"), ("QP1", "refused"), ("QL3", "advice"))
    ]
    assert commands.faults([*found, found[0]]) == ["1 QP1", "2 QP2"]
    assert named(()) == AS_IT_IS
    assert named(("normalize", "fix")) == "normalize, fix"


def test_a_float_model_gets_the_inputs_and_outputs_of_another():
    nodes = [helper.make_node("Add", ["x", "c"], ["t"]), helper.make_node("Neg", ["t"], ["y"])]
    model = make_model(nodes, {"x": (1, 4)}, {"y": (1, 4)}, {"c": np.float32([2.0])})
    other = make_model([helper.make_node("Neg", ["y"], ["x"])], {"y": (1, 4)}, {"x": (1, 4)}, {})
    for value in (*other.graph.input, *other.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    made = baseline.like(model, other)
    onnx.checker.check_model(made, full_check=True)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(["x"], {"y": np.ones((1, 4), np.float16)})
    assert result.dtype == np.float16
    assert np.array_equal(result, np.full((1, 4), -3))


@pytest.mark.builder
def test_the_shortest_way_with_the_most_kernels_is_taken(tmp_path):
    """Codes of uint8 with zero point 128: the tool's input has another name than the float model's."""
    weight = np.random.default_rng(3).normal(size=(64, 64)).astype(np.float32)
    matmul = helper.make_node("MatMul", ["x", "w"], ["y"])
    onnx.save(make_model([matmul], {"x": (1, 64)}, {"y": (1, 64)}, {"w": weight}), tmp_path / "t.m.float.onnx")
    nodes = [
        helper.make_node("QuantizeLinear", ["input", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["wq", "ws", "wz"], ["wd"], axis=1),
        helper.make_node("MatMul", ["d", "wd"], ["out"]),
    ]
    scales = (np.abs(weight).max(axis=0) / 127).astype(np.float32)
    constants = {
        "s": np.float32(0.03),
        "z": np.uint8(128),
        "wq": np.rint(weight / scales).astype(np.int8),
        "ws": scales,
        "wz": np.zeros(64, np.int8),
    }
    onnx.save(make_model(nodes, {"input": (1, 64)}, {"out": (1, 64)}, constants), tmp_path / "t.m.onnx")
    for part in ("calib", "test"):
        np.savez(tmp_path / f"t.m.{part}.npz", x=np.random.default_rng(5).normal(size=(4, 1, 64)).astype(np.float32))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    row = Chain(tmp_path, "t.m", scratch).run()
    assert row.findings == ["2 QP102", "1 QP103"]
    assert (row.layers, row.way, row.achieved, row.planned, row.left) == (1, "fix", 1, 1, [])
    assert row.before_by == "ONNX Runtime"
    assert row.before_db > 30
    assert row.change_db == float("inf")
    assert [attempt.way for attempt in row.attempts] == [AS_IT_IS, "fix", "normalize", "normalize, fix"]
    assert list(page.problems(row)) == []
