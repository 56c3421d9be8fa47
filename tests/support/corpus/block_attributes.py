"""The attribute block_size beside scales of every rank, on activations, weights and vectors."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import Case, graph_model, node, pair, tensor

SIZES = (0, 1, 2, 4, 8)
SCALES = ((), (1,), (2,), (4,))


def cases() -> Iterator[Case]:
    for size in SIZES:
        for scale in SCALES:
            yield Case(f"block_size {size}, scale {list(scale)}, activation", _activation(size, scale, [1, 4], 1))
            yield Case(f"block_size {size}, scale {list(scale)}, vector", _activation(size, scale, [4], 0))
            yield Case(f"block_size {size}, scale {list(scale)}, weight", _weight(size, scale))


def _parameters(shape: tuple[int, ...]) -> list[onnx.TensorProto]:
    return [tensor("s", np.full(shape, 0.1)), tensor("z", np.zeros(shape), T.INT8)]


def _activation(size: int, scale: tuple[int, ...], shape: list[int], axis: int) -> onnx.ModelProto:
    io = [("x", T.FLOAT, shape)], [("y", T.FLOAT, shape)]
    return graph_model(pair("x", "y", axis=axis, block_size=size), *io, _parameters(scale))


def _weight(size: int, scale: tuple[int, ...]) -> onnx.ModelProto:
    nodes = [node("DequantizeLinear", ["w", "s", "z"], "d", axis=1, block_size=size), node("MatMul", ["x", "d"], "y")]
    stored = [*_parameters(scale), tensor("w", np.ones((4, 4)), T.INT8)]
    return graph_model(nodes, [("x", T.FLOAT, [1, 4])], [("y", T.FLOAT, [1, 4])], stored)
