"""Models with numbers that exporters and damaged files have: no command calls them a bug of ours."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qdqtool.__main__ import main

RNG = np.random.default_rng(0)
UNKNOWN_TYPE = 99


def conv(dims: list[int], weight: np.ndarray | None = None) -> onnx.ModelProto:
    stored = RNG.normal(size=(4, 3, 3, 3)).astype(np.float32) if weight is None else weight
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(stored, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def matmul(rows: int, columns: int) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, rows])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weight = numpy_helper.from_array(np.zeros((rows, columns), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", inputs, outputs, [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def typed(place: str) -> onnx.ModelProto:
    """A model in which one element type is a number that ONNX does not know."""
    model = conv([1, 3, 8, 8])
    graph = model.graph
    if place == "initializer":
        graph.initializer[0].data_type = UNKNOWN_TYPE
    elif place == "cast":
        graph.node.append(helper.make_node("Cast", ["y"], ["z"], to=UNKNOWN_TYPE))
        graph.output[0].name = "z"
    elif place == "constant":
        value = onnx.TensorProto(data_type=UNKNOWN_TYPE, dims=[1], raw_data=b"1234")
        graph.node.extend([helper.make_node("Constant", [], ["k"], value=value)])
        graph.node.extend([helper.make_node("Add", ["y", "k"], ["z"])])
        graph.output[0].name = "z"
    elif place == "zero_point":
        graph.node.insert(0, helper.make_node("QuantizeLinear", ["x", "s", "zp"], ["xq"]))
        graph.node.insert(1, helper.make_node("DequantizeLinear", ["xq", "s", "zp"], ["xd"]))
        graph.node[2].input[0] = "xd"
        graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "s"))
        graph.initializer.append(onnx.TensorProto(name="zp", data_type=UNKNOWN_TYPE, raw_data=b"\0"))
    else:
        infos = {"input": graph.input[0], "output": graph.output[0], "value": graph.value_info.add(name="c")}
        infos[place].type.tensor_type.elem_type = UNKNOWN_TYPE
    return model


TYPED = ("initializer", "cast", "constant", "zero_point", "input", "output", "value")
MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "negative batch": lambda: conv([-1, 3, 8, 8]),
    "batch 0": lambda: conv([0, 3, 8, 8]),
    "negative size": lambda: conv([1, 3, -1, -1]),
    "size 0": lambda: conv([1, 3, 0, 0]),
    "Conv without elements": lambda: conv([1, 3, 8, 8], np.zeros((0, 3, 3, 3), np.float32)),
    "MatMul without columns": lambda: matmul(4, 0),
    "MatMul without rows": lambda: matmul(0, 4),
    **{f"{place} of an unknown type": lambda place=place: typed(place) for place in TYPED},
}
COMMANDS = (
    "inspect m.onnx --tensors",
    "validate m.onnx --target tensorrt,tensorrt-rtx,ort-cpu,onnx",
    "validate m.onnx --fix --diff --target onnx",
    "strip m.onnx -o o.onnx",
    "normalize m.onnx -o o.onnx",
    "check m.onnx",
    "check m.onnx --data d.npz",
    "calibrate m.onnx --data d.npz -o r.json",
    "quantize m.onnx --random-calibration -o o.onnx",
    "quantize m.onnx --data d.npz -o o.onnx",
    "quantize m.onnx --quantize-mode int4 --target ort-cpu -o o.onnx",
    "quantize m.onnx --list-matches",
    "diff m.onnx m.onnx",
)


def code_of(line: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(line.split())
    return int(caught.value.code or 0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", x=RNG.normal(size=(4, 3, 8, 8)).astype(np.float32))
    return tmp_path


@pytest.mark.parametrize("name", MODELS)
def test_no_command_calls_an_odd_model_a_bug(folder: Path, name: str):
    onnx.save(MODELS[name](), folder / "m.onnx")
    assert [line for line in COMMANDS if code_of(line) not in range(5)] == []


@pytest.mark.parametrize("name", ["negative batch", "batch 0", "negative size", "size 0"])
def test_such_a_dimension_is_open_for_real_data(folder: Path, name: str):
    model = MODELS[name]()
    onnx.save(model, folder / "m.onnx")
    for line in ("check m.onnx", "quantize m.onnx -o q.onnx", "normalize m.onnx -o n.onnx"):
        assert code_of(f"{line} --data d.npz") == 0, line
    written = onnx.load("n.onnx").graph.input[0].type.tensor_type.shape
    assert written == model.graph.input[0].type.tensor_type.shape, "a model is not changed by the way"
    if "batch" in name:
        assert code_of("check q.onnx --baseline m.onnx") == 0
    else:
        assert code_of("check m.onnx --input-shapes x:1x3x16x16") == 0
