"""Models and data of any size, for benchmarks/growth.py. Values do not matter, so they are simple."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 4
WIDTH = 100
"""Nodes in each body of nested Ifs."""
COLUMNS = 256
"""Of the weight of a product whose size varies."""

CHAIN_PLAN = """schema_version = 1

[[tensors]]
tensor = "relu*"
format = "int8"
scale = 0.1

[[tensors]]
tensor = "weight*"
format = "int8"
axis = 0
scale = [0.1, 0.1, 0.1, 0.1]
"""

BODY_PLAN = """schema_version = 1

[[tensors]]
tensor = "*part*"
format = "int8"
scale = 0.1
"""

PRODUCT_PLAN = """schema_version = 1

[[tensors]]
tensor = "weight"
format = "int8"
scale = 0.1
"""


def chain(nodes: int) -> onnx.ModelProto:
    """Conv and Relu in turn, ``nodes`` in all, each Conv with a weight of its own."""
    made, stored, previous = [], [], "x"
    for index in range(nodes // 2):
        weight = np.eye(CHANNELS, dtype=np.float32).reshape(CHANNELS, CHANNELS, 1, 1)
        stored.append(numpy_helper.from_array(weight, f"weight{index}"))
        made.append(helper.make_node("Conv", [previous, f"weight{index}"], [f"conv{index}"], f"conv{index}"))
        previous = f"relu{index}"
        made.append(helper.make_node("Relu", [f"conv{index}"], [previous], previous))
    return _model(made, previous, ["batch", CHANNELS, 8, 8], stored)


def product(elements: int) -> onnx.ModelProto:
    """One MatMul whose weight has that many elements."""
    inputs = elements // COLUMNS
    weight = np.sin(np.arange(inputs * COLUMNS, dtype=np.float32)).reshape(inputs, COLUMNS)
    node = helper.make_node("MatMul", ["x", "weight"], ["y"], "product")
    graph = helper.make_graph(
        [node], "benchmark", [_value("x", ["batch", inputs])], [_value("y", ["batch", COLUMNS])],
        [numpy_helper.from_array(weight, "weight")],
    )  # fmt: skip
    return _finished(graph)


def nested(depth: int) -> onnx.ModelProto:
    """If nodes one in the other, ``depth`` in all; each body has :data:`WIDTH` more nodes."""
    inner: Sequence[onnx.NodeProto] = []
    for level in reversed(range(1, depth + 1)):
        inner = [_branch(f"level{level}", inner)]
    stored = [numpy_helper.from_array(np.array(True), "condition")]
    ends = [_value("x", [1, CHANNELS])], [_value("level1", [1, CHANNELS])]
    return _finished(helper.make_graph(inner, "benchmark", *ends, stored))


def samples(count: int, shape: Sequence[int], path: Path) -> None:
    """Write an ``.npz`` with so many samples for the input ``x``."""
    np.savez(path, x=np.random.default_rng(0).normal(size=(count, *shape)).astype(np.float32))


def _branch(name: str, inner: Sequence[onnx.NodeProto]) -> onnx.NodeProto:
    """An If that makes the tensor ``name``; the body of its ``then`` ends with the nodes of ``inner``."""
    previous, nodes = "x", []
    for index in range(WIDTH):
        nodes.append(helper.make_node("Relu", [previous], [f"{name}.part{index}"], f"{name}.part{index}"))
        previous = f"{name}.part{index}"
    ends = [previous, *(node.output[0] for node in inner)]
    nodes += [*inner, helper.make_node("Sum", ends, [f"{name}.then"], f"{name}.sum")]
    then = helper.make_graph(nodes, f"{name}.then", [], [_value(f"{name}.then", [1, CHANNELS])])
    same = helper.make_node("Identity", ["x"], [f"{name}.else"])
    otherwise = helper.make_graph([same], f"{name}.else", [], [_value(f"{name}.else", [1, CHANNELS])])
    return helper.make_node("If", ["condition"], [name], name, then_branch=then, else_branch=otherwise)


def _value(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _model(
    nodes: Sequence[onnx.NodeProto], output: str, shape: Sequence[int | str], stored: Sequence[onnx.TensorProto]
) -> onnx.ModelProto:
    return _finished(helper.make_graph(nodes, "benchmark", [_value("x", shape)], [_value(output, shape)], stored))


def _finished(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
