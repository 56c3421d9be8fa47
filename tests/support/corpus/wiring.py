"""Where scales, zero points and stored codes come from: what counts as constant."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import INT8_ZERO, SCALE, Case, graph_model, node, pair, tensor

X, Y = ("x", T.FLOAT, [2, 4]), ("y", T.FLOAT, [2, 4])
ZERO = tensor("z0", 0, T.INT8)
ONE_LONG = tensor("one", [1], T.INT64)

ZERO_POINTS: Mapping[str, tuple[list[onnx.NodeProto], list[onnx.TensorProto]]] = {
    "Identity": ([node("Identity", ["z0"], "z")], [SCALE, ZERO]),
    "two Identity": ([node("Identity", ["z0"], "z1"), node("Identity", ["z1"], "z")], [SCALE, ZERO]),
    "Cast from float": ([node("Cast", ["zf"], "z", to=T.INT8)], [SCALE, tensor("zf", 0)]),
    "Cast from int32": ([node("Cast", ["zi"], "z", to=T.INT8)], [SCALE, tensor("zi", 0, T.INT32)]),
    "Reshape": ([node("Reshape", ["z0", "one"], "z")], [SCALE, ZERO, ONE_LONG]),
    "Constant": ([node("Constant", [], "z", value=ZERO)], [SCALE]),
    "Sub": ([node("Sub", ["z0", "z0"], "z")], [SCALE, ZERO]),
    "ConstantOfShape": (
        [node("ConstantOfShape", ["one"], "z", value=tensor("v", [0], T.INT8))],
        [tensor("s", [0.1]), ONE_LONG],
    ),
}

_RANGE = tensor("i", [0, 1, 2, 3], T.INT64)
_ROWS = tensor("n", [4, 4], T.INT64)
CODES: Mapping[str, tuple[Sequence[int], int, list[str], dict[str, object]]] = {
    "Identity": ((4, 4), T.INT8, ["w"], {}),
    "Transpose": ((4, 4), T.INT8, ["w"], {}),
    "Flatten": ((4, 4), T.INT8, ["w"], {}),
    "Flatten of rank 3": ((2, 2, 4), T.INT8, ["w"], {}),
    "Reshape": ((4, 4), T.INT8, ["w", "n"], {}),
    "Reshape of rank 3": ((2, 2, 4), T.INT8, ["w", "n"], {}),
    "Unsqueeze": ((4, 4), T.INT8, ["w", "zero"], {}),
    "Squeeze": ((1, 4, 4), T.INT8, ["w", "zero"], {}),
    "Slice": ((4, 4), T.INT8, ["w", "zero", "four"], {}),
    "Concat": ((4, 4), T.INT8, ["w", "w"], {"axis": 1}),
    "Gather": ((4, 4), T.INT8, ["w", "i"], {}),
    "Expand": ((1, 4), T.INT8, ["w", "n"], {}),
    "Add": ((4, 4), T.INT8, ["w", "w"], {}),
    "Cast to int8 from float": ((4, 4), T.FLOAT, ["w"], {"to": T.INT8}),
    "Cast to int8 from int32": ((4, 4), T.INT32, ["w"], {"to": T.INT8}),
    "Cast to int8 from uint8": ((4, 4), T.UINT8, ["w"], {"to": T.INT8}),
    "Cast to int8 from int8": ((4, 4), T.INT8, ["w"], {"to": T.INT8}),
    "Cast to int4 from float": ((4, 4), T.FLOAT, ["w"], {"to": T.INT4}),
}


def cases() -> Iterator[Case]:
    for what, (nodes, stored) in ZERO_POINTS.items():
        yield Case(f"zero point by {what}", graph_model([*nodes, *pair("x", "y")], [X], [Y], stored))
    for what, (dims, kind, inputs, attributes) in CODES.items():
        yield Case(f"codes by {what}", _codes(what.split(maxsplit=1)[0], (dims, kind), inputs, attributes))
    z_input, s_input = ("z", T.INT8, []), ("s", T.FLOAT, [])
    yield Case("zero point a graph input", graph_model(pair("x", "y"), [X, z_input], [Y], [SCALE]))
    for kind in (T.UINT8, T.FLOAT8E4M3FN):
        name = f"zero point a graph input of {T.DataType.Name(kind).lower()}"
        yield Case(name, graph_model(pair("x", "y"), [X, ("z", kind, [])], [Y], [SCALE]))
    yield Case("scale a graph input", graph_model(pair("x", "y"), [X, s_input], [Y], [INT8_ZERO]))
    yield Case("scale from the data", graph_model([*_measured(), *pair("x", "y")], [X], [Y], [INT8_ZERO]))


def _codes(op_type: str, source: tuple[Sequence[int], int], inputs: list[str], attributes: dict[str, object]) -> object:
    dims, kind = source
    stored = [tensor("w", np.ones(dims), kind), SCALE, _RANGE, _ROWS]
    stored += [tensor("zero", [0], T.INT64), tensor("four", [4], T.INT64)]
    nodes = [
        node(op_type, inputs, "codes", **attributes),
        node("DequantizeLinear", ["codes", "s"], "wd"),
        node("Neg", ["wd"], "n0"),
        node("Identity", ["x"], "y"),
    ]
    return graph_model(nodes, [X], [Y, ("n0", T.FLOAT, None)], stored)


def _measured() -> list[onnx.NodeProto]:
    return [node("Abs", ["x"], "abs"), node("ReduceMax", ["abs"], "s", keepdims=0)]
