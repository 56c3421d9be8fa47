"""Pairs in the branches of an If, the body of a Loop and a local function, with constants from in and outside."""

from collections.abc import Iterator

import onnx
from onnx import TensorProto as T
from onnx import helper

from support.corpus._case import Case, graph_model, node, pair, tensor, type_word

X, Y = ("x", T.FLOAT, [2, 4]), ("y", T.FLOAT, [2, 4])
PLACES = ("an If", "a Loop", "a Loop without condition", "a local function")
SCALES = (0.1, 0.0, -1.0, float("inf"))
ZERO_POINTS = ((T.INT8, 0), (T.INT8, 5), (T.UINT8, 0), (T.INT16, 0), (T.FLOAT8E4M3FN, 0))


def cases() -> Iterator[Case]:
    for place in PLACES:
        for inside in (True, False):
            where = "inside" if inside else "outside"
            for value in SCALES:
                stored = [tensor("s", value), tensor("z", 0, T.INT8)]
                yield Case(f"{place}, scale {value} {where}", _MAKERS[place](stored, inside))
            for kind, zero in ZERO_POINTS:
                stored = [tensor("s", 0.1), tensor("z", zero, kind)]
                yield Case(f"{place}, zero point {type_word(kind)} {zero} {where}", _MAKERS[place](stored, inside))


def _in_an_if(stored: list[onnx.TensorProto], inside: bool) -> onnx.ModelProto:
    branches = {
        f"{name}_branch": helper.make_graph(
            pair("x", f"y_{name}"), name, [], [_info(f"y_{name}")], stored if inside else []
        )
        for name in ("then", "else")
    }
    chosen = node("If", ["c"], "y", **branches)
    return _outer([chosen], [X, ("c", T.BOOL, [])], [] if inside else stored)


def _in_a_loop(stored: list[onnx.TensorProto], inside: bool, *, condition: str = "yes") -> onnx.ModelProto:
    body = helper.make_graph(
        [node("Identity", ["go"], "on"), *pair("v", "w")],
        "body",
        [helper.make_tensor_value_info("i", T.INT64, []), helper.make_tensor_value_info("go", T.BOOL, []), _info("v")],
        [helper.make_tensor_value_info("on", T.BOOL, []), _info("w")],
        stored if inside else [],
    )
    loop = node("Loop", ["n", condition, "x"], "y", body=body)
    outside = [] if inside else stored
    counters = [tensor("n", 2, T.INT64), tensor("yes", 1, T.BOOL)]
    return _outer([loop], [X], [*outside, *counters])


def _in_a_loop_without_condition(stored: list[onnx.TensorProto], inside: bool) -> onnx.ModelProto:
    return _in_a_loop(stored, inside, condition="")


def _in_a_function(stored: list[onnx.TensorProto], inside: bool) -> onnx.ModelProto:
    makers = [node("Constant", [], each.name, value=each) for each in stored] if inside else []
    formal = ["v"] if inside else ["v", "s", "z"]
    imports = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "Pair", formal, ["w"], [*makers, *pair("v", "w")], imports)
    call = node("Pair", ["x"] if inside else ["x", "s", "z"], "y", domain="own")
    model = _outer([call], [X], [] if inside else stored)
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def _outer(nodes: list[onnx.NodeProto], inputs: list[object], stored: list[onnx.TensorProto]) -> onnx.ModelProto:
    model = graph_model(nodes, inputs, [Y], [])
    model.graph.initializer.extend(stored)
    return model


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, T.FLOAT, [2, 4])


_MAKERS = {
    "an If": _in_an_if,
    "a Loop": _in_a_loop,
    "a Loop without condition": _in_a_loop_without_condition,
    "a local function": _in_a_function,
}
