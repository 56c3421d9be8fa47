"""Values of the scales of stored codes, in every type and granularity; and pairs of every type."""

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import Case, graph_model, node, pair, tensor, type_word

CODES = (T.INT8, T.INT4, T.FLOAT8E4M3FN, T.FLOAT4E2M1)
VALUES = (0.1, -0.1, 0.0, np.nan, np.inf)
GRANULARITIES: Mapping[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "one scale": ((), {}),
    "axis 1": ((8,), {"axis": 1}),
    "blocks": ((2, 8), {"axis": 0, "block_size": 4}),
    "one block": ((1, 8), {"axis": 0, "block_size": 8}),
    "one block and a larger block_size": ((1, 8), {"axis": 0, "block_size": 16}),
}


def cases() -> Iterator[Case]:
    for codes in CODES:
        for value in VALUES:
            for what, (shape, attributes) in GRANULARITIES.items():
                scales = np.full(shape, 0.1)
                scales[(0,) * len(shape)] = value
                name = f"a weight of {type_word(codes)} with {value} among its scales, {what}"
                yield Case(name, _weight(codes, scales, attributes))
            model = graph_model(
                pair("x", "y"),
                [("x", T.FLOAT, [2, 4])],
                [("y", T.FLOAT, [2, 4])],
                [tensor("s", value), tensor("z", 0, codes)],
                23,
                11,
            )
            yield Case(f"a pair of {type_word(codes)} with scale {value}", model)


def _weight(codes: int, scales: np.ndarray, attributes: dict[str, int]) -> onnx.ModelProto:
    nodes = [node("DequantizeLinear", ["w", "s"], "wd", **attributes), node("MatMul", ["x", "wd"], "y")]
    stored = [tensor("w", np.ones((8, 8)), codes), tensor("s", scales)]
    return graph_model(nodes, [("x", T.FLOAT, [1, 8])], [("y", T.FLOAT, [1, 8])], stored, 23, 11)
