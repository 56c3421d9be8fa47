"""Operators behind and between Q and DQ: products of mixed types, arithmetic on codes, biases."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto as T

from support.corpus._case import INT8_ZERO, SCALE, Case, graph_model, node, pair, tensor, type_word

PRODUCTS = ("Conv", "Gemm", "MatMul", "ConvTranspose")
WEIGHTS = (T.INT8, T.FLOAT8E4M3FN, T.INT4, T.FLOAT4E2M1)
ACTIVATIONS = (None, *WEIGHTS)
# fmt: off
ON_CODES = (
    "Abs", "Add", "AveragePool", "Clip", "DepthToSpace", "Elu", "Erf", "Exp", "Flatten", "Floor", "Gelu",
    "GlobalAveragePool", "GlobalMaxPool", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "MaxPool", "Mul",
    "Neg", "Reciprocal", "ReduceMax", "ReduceMean", "Relu", "Round", "Sigmoid", "Sign", "Sin", "Softmax",
    "Softplus", "Split", "Sqrt", "Sub", "Tanh", "Transpose",
)
# fmt: on
EXTRA = {"DepthToSpace": {"blocksize": 1}, "Split": {"num_outputs": 1}}
TWO_INPUTS = frozenset({"Add", "Mul", "Sub", "Max"})
IMAGE = [1, 2, 4, 4]


def cases() -> Iterator[Case]:
    for op_type in PRODUCTS:
        for weight in WEIGHTS:
            for activation in ACTIVATIONS:
                beside = "float" if activation is None else type_word(activation)
                name = f"{op_type} of {beside} with {type_word(weight)}"
                yield Case(f"{name}, one scale", _product(op_type, weight, activation, None))
                if activation is not None:
                    yield Case(f"{name}, axis 1", _product(op_type, weight, activation, 1))
    for left in WEIGHTS:
        for right in WEIGHTS:
            yield Case(f"MatMul of two activations {type_word(left)} {type_word(right)}", _activations(left, right))
    for op_type in ON_CODES:
        yield Case(f"{op_type} of codes", _on_codes(op_type))
    for bias in (T.INT32, T.INT8, T.FLOAT8E4M3FN):
        yield Case(f"{type_word(bias)} bias", _bias(bias))


def _product(op_type: str, weight: int, activation: int | None, axis: int | None) -> onnx.ModelProto:
    flat = op_type in {"Gemm", "MatMul"}
    shape, data = ((8, 8), [8, 8]) if flat else ((8, 8, 1, 1), [1, 8, 4, 4])
    attributes = {} if axis is None else {"axis": axis}
    stored = [tensor("w", np.ones(shape), weight), tensor("ws", 0.1 if axis is None else np.full(8, 0.1))]
    before: list[onnx.NodeProto] = []
    if activation is not None:
        before = pair("x", "xd")
        stored += [SCALE, tensor("z", 0, activation)]
    nodes = [
        *before,
        node("DequantizeLinear", ["w", "ws"], "wd", **attributes),
        node(op_type, ["xd" if before else "x", "wd"], "y"),
    ]
    return graph_model(nodes, [("x", T.FLOAT, data)], [("y", T.FLOAT, data)], stored, 23, 11)


def _activations(left: int, right: int) -> onnx.ModelProto:
    nodes = [*pair("a", "ad", zero_point="az"), *pair("b", "bd", zero_point="bz"), node("MatMul", ["ad", "bd"], "y")]
    square = [8, 8]
    stored = [SCALE, tensor("az", 0, left), tensor("bz", 0, right)]
    inputs = [("a", T.FLOAT, square), ("b", T.FLOAT, square)]
    return graph_model(nodes, inputs, [("y", T.FLOAT, square)], stored, 23, 11)


def _on_codes(op_type: str) -> onnx.ModelProto:
    attributes = {"kernel_shape": [1, 1]} if op_type in {"MaxPool", "AveragePool"} else EXTRA.get(op_type, {})
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], "q"),
        node(op_type, ["q", "q"] if op_type in TWO_INPUTS else ["q"], "p", **attributes),
        node("DequantizeLinear", ["p", "s", "z"], "y"),
    ]
    return graph_model(nodes, [("x", T.FLOAT, IMAGE)], [("y", T.FLOAT, None)], [SCALE, INT8_ZERO])


def _bias(kind: int) -> onnx.ModelProto:
    nodes = [
        *pair("x", "xd"),
        node("DequantizeLinear", ["w", "s"], "wd"),
        node("DequantizeLinear", ["b", "s"], "bd"),
        node("Conv", ["xd", "wd", "bd"], "y"),
    ]
    stored = [SCALE, INT8_ZERO, tensor("w", np.ones((8, 8, 1, 1)), T.INT8), tensor("b", np.ones(8), kind)]
    return graph_model(nodes, [("x", T.FLOAT, [1, 8, 4, 4])], [("y", T.FLOAT, None)], stored)
