"""Types and values of zero points, and what output_dtype says beside them."""

from collections.abc import Iterator

from onnx import TensorProto as T

from support.corpus._case import SCALE, Case, given, graph_model, node, pair, tensor, type_word

TYPES = (
    T.INT8,
    T.UINT8,
    T.INT16,
    T.UINT16,
    T.INT4,
    T.UINT4,
    T.INT32,
    T.FLOAT,
    T.FLOAT8E4M3FN,
    T.FLOAT8E5M2,
    T.FLOAT8E4M3FNUZ,
    T.FLOAT4E2M1,
    T.INT2,
    T.BOOL,
    T.INT64,
)
X, Y = ("x", T.FLOAT, [2, 4]), ("y", T.FLOAT, [2, 4])


def cases() -> Iterator[Case]:
    for kind in TYPES:
        for value in (0, 1):
            for opset in (19, 21, 23, 25):
                model = graph_model(pair("x", "y"), [X], [Y], [SCALE, tensor("z", value, kind)], opset, 11)
                yield Case(f"zero point {type_word(kind)} {value} opset {opset}", model)
    for dtype in (None, T.UINT8, T.INT8, T.INT16, T.INT32, T.FLOAT8E4M3FN, T.INT4, T.FLOAT4E2M1, T.FLOAT):
        for zero in (None, T.UINT8, T.INT8, "empty"):
            yield Case(f"output_dtype {dtype} zero point {zero}", _with_output_dtype(dtype, zero))


def _with_output_dtype(dtype: int | None, zero: int | str | None) -> object:
    third = [] if zero is None else [""] if zero == "empty" else ["z"]
    nodes = [
        node("QuantizeLinear", ["x", "s", *third], "q", **given(output_dtype=dtype)),
        node("DequantizeLinear", ["q", "s"], "y"),
    ]
    stored = [tensor("z", 0, zero)] if isinstance(zero, int) else []
    return graph_model(nodes, [X], [Y], [SCALE, *stored], 23, 11)
