"""Shapes of scales against ranks of data and axes."""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto as T

from support.corpus._case import Case, given, graph_model, pair, tensor

EXTENTS = (2, 4, 6, 8)
SCALES = ((), (1,), (0,), (2,), (4,), (6,), (1, 1), (2, 4), (1, 4), (2, 1), (1, 1, 1, 1), (2, 2), (1, 2, 6))
AXES = (None, 0, 1, -1, 5)


def cases() -> Iterator[Case]:
    for rank in range(5):
        data = list(EXTENTS[:rank])
        for shape in SCALES:
            for axis in AXES:
                stored = [tensor("s", np.full(shape, 0.1)), tensor("z", np.zeros(shape), T.INT8)]
                nodes = pair("x", "y", **given(axis=axis))
                model = graph_model(nodes, [("x", T.FLOAT, data)], [("y", T.FLOAT, data)], stored)
                yield Case(f"rank {rank} scale {list(shape)} axis {axis}", model)
