"""Values of scales, in three types, stored in seven ways."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import INT8_ZERO, Case, graph_model, node, pair, tensor, type_word

VALUES = (0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, 1e-40, 1e-30, 1e38, 1e-7, 6e-8, 1e-3)
WAYS = ("initializer", "Constant", "Identity", "Cast", "Mul", "Reshape", "read before")


def cases() -> Iterator[Case]:
    for value in VALUES:
        for way in WAYS:
            for kind in (T.FLOAT, T.FLOAT16, T.BFLOAT16):
                yield Case(f"scale {value} {type_word(kind)} by {way}", _model(value, way, kind))


def _model(value: float, way: str, kind: int) -> onnx.ModelProto:
    zero = tensor("z", [0], T.INT8) if way == "Reshape" else INT8_ZERO
    stored = [tensor("s0", value, kind), zero, tensor("one", 1, kind), tensor("shape", [1], T.INT64)]
    data, scale, before = "x", "s", _makers(way, kind, stored[0])
    if way == "initializer":
        scale = "s0"
    elif way == "read before":
        data, scale, before = "sum", "s0", [node("Add", ["x", "s0"], "sum")]
    nodes = [*before, *pair(data, "y", scale=scale)]
    return graph_model(nodes, [("x", kind, [2, 4])], [("y", kind, [2, 4])], stored)


def _makers(way: str, kind: int, stored: onnx.TensorProto) -> list[onnx.NodeProto]:
    wide = T.DOUBLE if kind == T.FLOAT else T.FLOAT
    return {
        "Constant": [node("Constant", [], "s", value=stored)],
        "Identity": [node("Identity", ["s0"], "s")],
        "Cast": [node("Cast", ["s0"], "wide", to=wide), node("Cast", ["wide"], "s", to=kind)],
        "Mul": [node("Mul", ["s0", "one"], "s")],
        "Reshape": [node("Reshape", ["s0", "shape"], "s")],
    }.get(way, [])
