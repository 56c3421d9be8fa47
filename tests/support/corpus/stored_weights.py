"""Stored weights: types, scale shapes, blocks and odd sizes, with each kind of activation beside them."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import SCALE, Case, given, graph_model, node, pair, tensor, type_word

TYPES = (T.INT8, T.UINT8, T.INT4, T.UINT4, T.FLOAT8E4M3FN, T.FLOAT4E2M1, T.INT32, T.INT16, T.FLOAT8E5M2)
LAYOUTS = (
    ((), None, None),
    ((8,), 1, None),
    ((8,), 0, None),
    ((4,), 1, None),
    ((2, 8), 0, 4),
    ((2, 8), 0, None),
    ((2, 8), 0, 3),
    ((8, 2), 1, 4),
    ((8, 8), 0, 1),
    ((3, 8), 0, 3),
    ((2, 2), 0, 4),
    ((2, 8), 1, 4),
    ((8,), None, None),
    ((16, 8), 0, 1),
)
ACTIVATIONS = (None, T.INT8, T.FLOAT8E4M3FN, T.FLOAT4E2M1)


def cases() -> Iterator[Case]:
    for kind in TYPES:
        for shape, axis, block in LAYOUTS:
            for activation in ACTIVATIONS:
                beside = "float" if activation is None else type_word(activation)
                name = f"{type_word(kind)} weight scale {list(shape)} axis {axis} block {block} beside {beside}"
                yield Case(name, _matmul(kind, shape, given(axis=axis, block_size=block), activation))
    for kind in (T.INT4, T.FLOAT4E2M1, T.INT8):
        for shape in ((3, 3), (2, 3), (3, 2), (1, 1), (5,)):
            yield Case(f"{type_word(kind)} weight of shape {list(shape)}", _added(kind, list(shape)))
            yield Case(f"{type_word(kind)} activation of shape {list(shape)}", _activation(kind, list(shape)))


def _matmul(kind: int, shape: tuple[int, ...], attributes: dict[str, object], activation: int | None) -> object:
    stored = [tensor("w", np.ones((8, 8)), kind), tensor("ws", np.full(shape, 0.1))]
    before: list[onnx.NodeProto] = []
    if activation is not None:
        before = pair("x", "xd")
        stored += [SCALE, tensor("z", 0, activation)]
    nodes = [
        *before,
        node("DequantizeLinear", ["w", "ws"], "wd", **attributes),
        node("MatMul", ["xd" if before else "x", "wd"], "y"),
    ]
    return graph_model(nodes, [("x", T.FLOAT, [4, 8])], [("y", T.FLOAT, [4, 8])], stored, 23, 11)


def _added(kind: int, shape: list[int]) -> object:
    nodes = [node("DequantizeLinear", ["w", "s"], "wd"), node("Add", ["x", "wd"], "y")]
    stored = [tensor("w", np.ones(shape), kind), SCALE]
    return graph_model(nodes, [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)], stored, 23, 11)


def _activation(kind: int, shape: list[int]) -> object:
    stored = [SCALE, tensor("z", 0, kind)]
    return graph_model(pair("x", "y"), [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)], stored, 23, 11)
