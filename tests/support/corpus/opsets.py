"""Types of data and scale by opset, and the axis before and after it became an attribute."""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto as T

from support.corpus._case import INT8_ZERO, Case, given, graph_model, pair, tensor, type_word

DATA = (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE, T.INT32, T.INT64, T.INT8)
SCALES = (T.FLOAT, T.FLOAT16, T.BFLOAT16, T.DOUBLE)


def cases() -> Iterator[Case]:
    for data in DATA:
        for scale in SCALES:
            for opset in (18, 19, 21, 23):
                io = [("x", data, [2, 4])], [("y", scale, [2, 4])]
                model = graph_model(pair("x", "y"), *io, [tensor("s", 0.1, scale), INT8_ZERO], opset)
                yield Case(f"{type_word(data)} data {type_word(scale)} scale opset {opset}", model)
    for opset in (10, 11, 12, 13):
        for shape in ((), (1,), (2,), (4,)):
            for axis in (None, 0, 1):
                stored = [tensor("s", np.full(shape, 0.1)), tensor("z", np.zeros(shape), T.INT8)]
                io = [("x", T.FLOAT, [2, 4])], [("y", T.FLOAT, [2, 4])]
                model = graph_model(pair("x", "y", **given(axis=axis)), *io, stored, opset, 6)
                yield Case(f"opset {opset} scale {list(shape)} axis {axis}", model)
        for data in ([4], [4, 4], [1, 4, 2, 2], [4, 2, 3]):
            stored = [tensor("s", np.full(4, 0.1)), tensor("z", np.zeros(4), T.INT8)]
            io = [("x", T.FLOAT, data)], [("y", T.FLOAT, data)]
            model = graph_model(pair("x", "y"), *io, stored, opset, 6)
            yield Case(f"opset {opset} 4 scales on {data}", model)
