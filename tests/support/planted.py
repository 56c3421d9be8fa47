"""Failures that are planted into models, and a command in this process that fails on them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from qdqtool.jobs.reduction.failure import Failure, Kind
from qdqtool.jobs.reduction.reducer import Reducer
from qdqtool.jobs.reduction.search import Search, Trials
from qdqtool.models.graph.model import Model

Judge = Callable[[onnx.ModelProto], Failure | None]

ERROR = Failure(Kind.EXIT, "1", ("it failed",), "it failed")


class Planted:
    """A command that reads the candidate's file and fails as a function says."""

    cuts: frozenset[str] | None = None

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.seen: list[onnx.ModelProto] = []

    def run(self, model: Path, folder: Path) -> Failure | None:
        self.seen.append(onnx.load(str(model)))
        return self.judge(self.seen[-1])

    def write_companion(self, model: Path) -> Path | None:
        return None

    def line(self, model: str) -> str:
        return f"planted {model}"


def reduced(proto: onnx.ModelProto, judge: Judge, folder: Path, *, max_runs: int = 1000) -> tuple[Model, Search]:
    """The model that a whole reduction leaves, and its search."""
    command = Planted(judge)
    search = Search(Model(proto), Trials(command, folder, max_runs, lambda *_: None))
    reducer = Reducer(search, command)
    reducer.observe()
    reducer.reduce()
    return search.best, search


def failing_with(*op_types: str) -> Judge:
    """Fail where all of these operators are somewhere in the model."""
    return lambda proto: ERROR if {*op_types} <= set(operators(proto)) else None


def failing_where(holds: Callable[[onnx.ModelProto], bool]) -> Judge:
    return lambda proto: ERROR if holds(proto) else None


def operators(proto: onnx.ModelProto) -> list[str]:
    """The operators of all nodes, those of bodies included; found without the package."""
    found: list[str] = []
    waiting = [*proto.graph.node, *(node for function in proto.functions for node in function.node)]
    while waiting:
        node = waiting.pop(0)
        found.append(node.op_type)
        for attribute in node.attribute:
            waiting += attribute.g.node
    return found


def joined(proto: onnx.ModelProto, first: str, last: str, *, adjacent: bool = False) -> bool:
    """Whether a tensor of one operator reaches another one, along nodes of the main graph."""
    reached = {name for node in proto.graph.node if node.op_type == first for name in node.output}
    for node in proto.graph.node:
        if reached.intersection(node.input):
            if node.op_type == last:
                return True
            if not adjacent:
                reached.update(node.output)
    return False


def random_network(seed: int, size: int, planted: dict[int, str]) -> onnx.ModelProto:
    """A network of elementwise nodes in which every node reads one or two random earlier tensors.

    Args:
        seed: Decides about the network.
        size: Its number of nodes.
        planted: Operators of one input, by the position of the node.
    """
    rng = np.random.default_rng(seed)
    tensors, nodes = ["x"], []
    for index in range(size):
        name = f"t{index}"
        if index in planted:
            nodes.append(helper.make_node(planted[index], [tensors[-1]], [name]))
        elif rng.integers(2):
            nodes.append(helper.make_node("Relu", [str(rng.choice(tensors[-6:]))], [name]))
        else:
            pair = [str(rng.choice(tensors[-6:])), str(rng.choice([*tensors[-3:], "w"]))]
            nodes.append(helper.make_node("Add", pair, [name]))
        tensors.append(name)
    read = {name for node in nodes for name in node.input}
    outputs = [name for name in tensors[1:] if name not in read]
    return network(nodes, outputs, {"w": np.full((4, 6), 0.5, np.float32)})


def network(
    nodes: list[onnx.NodeProto], outputs: list[str], weights: dict[str, np.ndarray] | None = None
) -> onnx.ModelProto:
    """A model of one input x[4, 6] whose tensors all have that shape."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "network",
        [value("x", TensorProto.FLOAT, (4, 6))],
        [value(name, TensorProto.FLOAT, (4, 6)) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
