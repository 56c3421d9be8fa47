"""Data, scale and output of different float types, around codes of every type."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import Case, graph_model, node, tensor, type_word

FLOATS = (T.FLOAT, T.FLOAT16, T.BFLOAT16)
CODES = (T.INT8, T.FLOAT8E4M3FN, T.INT4, T.FLOAT4E2M1)
GRANULARITIES = {
    "one scale": (0.1, {}),
    "axis 1": (np.full(32, 0.1), {"axis": 1}),
    "blocks": (np.full((4, 32), 0.1), {"axis": 0, "block_size": 32}),
}


def cases() -> Iterator[Case]:
    for codes, data, scale in product(CODES, FLOATS, FLOATS):
        words = f"{type_word(codes)} with {type_word(scale)} scale"
        for made in FLOATS:
            yield Case(f"{words} from {type_word(data)} to {type_word(made)}", _pair(codes, data, scale, made))
        for what, (scales, attributes) in GRANULARITIES.items():
            model = _weight(codes, data, tensor("ws", scales, scale), attributes)
            yield Case(f"a weight of {words} to {type_word(data)}, {what}", model)


def _pair(codes: int, data: int, scale: int, made: int) -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "q"),
        node("DequantizeLinear", ["q", "s", "z"], "y", output_dtype=made),
    ]
    stored = [tensor("s", 0.1, scale), tensor("z", 0, codes)]
    return graph_model(nodes, [("x", data, [2, 4])], [("y", made, [2, 4])], stored, 23, 11)


def _weight(codes: int, made: int, scales: onnx.TensorProto, attributes: dict[str, object]) -> onnx.ModelProto:
    nodes = [
        node("DequantizeLinear", ["w", "ws"], "wd", output_dtype=made, **attributes),
        node("MatMul", ["x", "wd"], "y"),
    ]
    stored = [scales, tensor("w", np.ones((128, 32)), codes)]
    return graph_model(nodes, [("x", made, [1, 128])], [("y", made, [1, 32])], stored, 23, 11)
