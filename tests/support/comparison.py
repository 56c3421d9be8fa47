"""Results and models for tests of benchmarks/comparison."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.comparison.contestants import DEFAULT_METHOD
from benchmarks.comparison.costs import Cost
from benchmarks.comparison.coverage import Coverage
from benchmarks.comparison.measured import Result
from benchmarks.comparison.quality import Quality


def result(tool: str, group: str, sqnr: float, full: int = 9, seconds: float = 1) -> Result:
    made = Result("model", tool, group, DEFAULT_METHOD, 8, trained=True, heavy=True)
    made.baseline, made.cost = Cost(1, 1, 1), Cost(seconds, 9, 1)
    made.quality, made.coverage = Quality({"y": sqnr}), Coverage(9, full, 0, 9)
    return made


def saved(folder: Path, inputs: list[str]) -> Path:
    """One MatMul of ``inputs``, with Q/DQ pairs to choose from."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "scale", "zero"], ["x_dq"]),
        helper.make_node("QuantizeLinear", ["weight", "scale", "zero"], ["w_q"]),
        helper.make_node("DequantizeLinear", ["w_q", "scale", "zero"], ["w_dq"]),
        helper.make_node("Transpose", ["w_dq"], ["w_moved"]),
        helper.make_node("MatMul", inputs, ["y"], name="product"),
    ]
    stored = {"scale": np.float32(0.1), "zero": np.int8(0), "weight": np.ones((4, 4), np.float32)}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in ("x", "y")]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
