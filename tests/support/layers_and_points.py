"""Small models of layers with weights of fixed names, and the rescaling points that are found in them."""

from collections.abc import Iterable

import numpy as np
import onnx
from onnx import helper

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from support.small import make_model

IMAGE, ROWS = (2, 4, 5, 5), (2, 5, 8)

SHAPES = {
    "scale": (8,),
    "shift": (8,),
    "wide": (1, 1, 8),
    "short": (1,),
    "square": (8, 8),
    "u": (8, 6),
    "v": (6, 4),
    "six": (6,),
    "row6": (1, 6),
    "tall": (5, 6),
    "seven": (7,),
    "bu": (8,),
    "w": (4, 4, 1, 1),
    "k": (4, 4, 1, 1),
    "b": (4,),
    "g": (3, 100),
    "odd": (3, 99),
    "gb": (3,),
    "slope": (4, 1, 1),
    "double": (4, 8, 1, 1),
    "four": (4,),
    "o": (3, 4, 1, 1),
    "odd6": (9, 2),
    "five8": (5, 8),
    "h": (100, 3),
    "q": (4, 3),
    "six6": (6, 6),
}


def weight(name: str) -> np.ndarray:
    seed = sum(map(ord, name))
    return np.random.default_rng(seed).normal(size=SHAPES[name]).astype(np.float32)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> onnx.NodeProto:
    """A node whose inputs and outputs are separated by blanks; ``-`` is an omitted one."""
    split = [["" if name == "-" else name for name in names.split()] for names in (inputs, outputs)]
    return helper.make_node(op, *split, name=f"{op}.{split[1][0]}", **attributes)


def model(nodes: Iterable[onnx.NodeProto], shape: tuple[int, ...], outputs: str = "y") -> onnx.ModelProto:
    nodes = list(nodes)
    read = {name for each in nodes for name in each.input}
    stored = {name: weight(name) for name in SHAPES if name in read}
    proto = make_model(nodes, {"x": shape}, dict.fromkeys(outputs.split(), ()), stored)
    for value in proto.graph.output:
        value.type.tensor_type.ClearField("shape")
    return proto


def found(proto: onnx.ModelProto, kind: PointKind) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """The readers by the tensor of their rescaling point, and the reasons of the other layers by their label."""
    points, alone = find_rescaling_points(ModelIndex.of(Model(proto)), kind)
    readers = {point.tensor.name: tuple(reader.weight.node.label for reader in point.readers) for point in points}
    assert [point.key for point in points] == [((), name) for name in readers]
    return readers, {entry.node: entry.reason for entry in alone}


CONV = node("Conv", "x w", "c")
MATMUL = node("MatMul", "x u", "m")
