"""Strip: the float model comes back, exactly where the float weights were kept."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.small import conv_model, make_model, run

from qdqtool.insertion.pair_edits import WeightStorage
from qdqtool.jobs.insert import InsertOptions, insert_plan
from qdqtool.jobs.strip import StripReport, strip_model

X = {"x": np.random.default_rng(0).normal(size=(1, 3, 8, 8)).astype(np.float32)}
ENTRIES = [
    {"tensor": "x", "format": "int8", "scale": 0.05},
    {"tensor": "r", "format": "int8", "scale": 0.07},
    {"tensor": "y", "format": "int8", "scale": 0.09},
    {"tensor": "w", "format": "int8", "axis": 0, "scale": [0.01, 0.02, 0.03, 0.04]},
    {"tensor": "v", "format": "uint8", "scale": 0.02, "zero_point": 120},
]


def quantized(folder: Path, weights: WeightStorage) -> Path:
    (folder / "m.onnx").write_bytes(conv_model().SerializeToString(deterministic=True))
    (folder / "p.json").write_text(json.dumps({"schema_version": 1, "tensors": ENTRIES}))
    insert_plan(folder / "m.onnx", folder / "p.json", folder / "q.onnx", InsertOptions(weights=weights))
    return folder / "q.onnx"


def strip(path: Path) -> tuple[onnx.ModelProto, StripReport]:
    report = strip_model(path, path.with_name("s.onnx"))
    result = onnx.load(path.with_name("s.onnx"))
    onnx.checker.check_model(result, full_check=True)
    return result, report


def test_kept_float_weights_come_back_byte_for_byte(tmp_path: Path) -> None:
    _, report = strip(quantized(tmp_path, WeightStorage.QDQ))
    assert (tmp_path / "s.onnx").read_bytes() == (tmp_path / "m.onnx").read_bytes()
    assert report.kept == ()
    assert len(report.removed) == 5


def test_packed_weights_come_back_within_half_a_step_under_their_old_names(tmp_path: Path) -> None:
    stripped, report = strip(quantized(tmp_path, WeightStorage.PACKED))
    before = {tensor.name: numpy_helper.to_array(tensor) for tensor in conv_model().graph.initializer}
    after = {tensor.name: numpy_helper.to_array(tensor) for tensor in stripped.graph.initializer}
    assert after.keys() == before.keys()
    steps = np.array([0.01, 0.02, 0.03, 0.04], np.float32).reshape(4, 1, 1, 1)
    inside = np.abs(before["w"]) <= 127 * steps
    assert inside.any()
    assert np.all(np.abs(after["w"] - before["w"])[inside] <= (steps / 2 * (1 + 1e-6) + 0 * before["w"])[inside])
    assert [node.SerializeToString() for node in stripped.graph.node] == [
        node.SerializeToString() for node in conv_model().graph.node
    ]
    assert sorted(done.tensor for done in report.removed if done.kind == "weight") == ["v", "w"]


def test_codes_at_the_border_of_the_graph_stay_and_are_named(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "s", "z"], ["a"], name="from_input"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["out"], name="to_output"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("codes", TensorProto.INT8, [4])],
        [helper.make_tensor_value_info("out", TensorProto.INT8, [4])],
        [numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.int8(0), "z")],
    )
    path = tmp_path / "q.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    stripped, report = strip(path)
    assert stripped.SerializeToString() == onnx.load(path).SerializeToString()
    assert sorted(rest.node for rest in report.kept) == ["from_input", "to_output"]


def qdq_chain(dq_outputs: tuple[str, ...], outputs: tuple[str, ...], double: bool = False) -> onnx.ModelProto:
    """x -> Relu -> r -> Q -> one DQ for each name; a Neg reads the first that is no output."""
    nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q"])]
    nodes += [helper.make_node("DequantizeLinear", ["q", "s", "z"], [name]) for name in dq_outputs]
    if double:
        nodes.append(helper.make_node("QuantizeLinear", [dq_outputs[0], "s", "z"], ["q2"]))
        nodes.append(helper.make_node("DequantizeLinear", ["q2", "s", "z"], ["twice"]))
    inner = next((name for name in dq_outputs if name not in outputs), None)
    if inner:
        nodes.append(helper.make_node("Neg", ["twice" if double else inner], ["n"]))
    constants = {"s": np.asarray(np.float32(0.5)), "z": np.asarray(np.int8(0))}
    return make_model(nodes, {"x": (4,)}, dict.fromkeys(outputs, (4,)), constants)


@pytest.mark.parametrize(
    ("dq_outputs", "outputs", "double"),
    [
        (("a",), ("a",), False),
        (("a", "b"), ("n", "b"), False),
        (("a", "b"), ("n", "r", "b"), False),
        (("a", "b"), ("b", "a"), False),
        (("a",), ("n",), True),
    ],
)
def test_outputs_forks_and_double_pairs(
    tmp_path: Path, dq_outputs: tuple[str, ...], outputs: tuple[str, ...], double: bool
) -> None:
    path = tmp_path / "q.onnx"
    path.write_bytes(qdq_chain(dq_outputs, outputs, double).SerializeToString())
    stripped, report = strip(path)
    assert report.kept == ()
    assert not {"QuantizeLinear", "DequantizeLinear"} & {node.op_type for node in stripped.graph.node}
    x = np.array([0.3, -1.0, 2.2, 0.04], np.float32)
    relu = np.maximum(x, 0)
    expected = [-relu if name == "n" else relu for name in outputs]
    assert [out.name for out in stripped.graph.output] == list(outputs)
    assert all(np.array_equal(a, b) for a, b in zip(run(stripped, {"x": x}), expected, strict=True))


@pytest.mark.parametrize(("before", "warned"), [("Neg", True), ("Relu", False)])
def test_a_q_that_does_the_work_of_a_relu_is_warned_of(tmp_path: Path, before: str, warned: bool) -> None:
    nodes = [
        helper.make_node(before, ["x"], ["r"]),
        helper.make_node("QuantizeLinear", ["r", "s", "z"], ["q"], name="clips"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Exp", ["d"], ["y"]),
    ]
    constants = {"s": np.asarray(np.float32(0.5)), "z": np.asarray(np.uint8(0))}
    path = tmp_path / "q.onnx"
    path.write_bytes(make_model(nodes, {"x": (4,)}, {"y": (4,)}, constants).SerializeToString())
    _, report = strip(path)
    assert ["clips at zero" in warning for warning in report.warnings] == [True] * warned
