"""Operators that ONNX does not have, or not at the opset, in the default domain; local functions called as Q and DQ."""

from collections.abc import Iterator

import onnx

from support.corpus._case import Case

CODES = "float s = {0.1}, int8 z = {0}"
ON_CODES = {
    "QLinearAdd": "x, s, z, x, s, z, s, z",
    "QLinearMul": "x, s, z, x, s, z, s, z",
    "QLinearSigmoid": "x, s, z, s, z",
    "QLinearLeakyRelu": "x, s, z, s, z",
    "QLinearGlobalAveragePool": "x, s, z, s, z",
    "QLinearAveragePool": "x, s, z, s, z",
    "QLinearConcat": "s, z, x, s, z",
    "QLinearSoftmax": "x, s, z, s, z",
    "QLinearReduceMean": "x, s, z, s, z",
    "QLinearWhere": "x, x, s, z, x, s, z, s, z",
    "QGemm": "x, s, z, x, s, z",
}
ON_FLOATS = {
    "MatMulIntegerToFloat": "w, w, s, s",
    "DynamicQuantizeMatMul": "x, w, s",
    "DynamicQuantizeLSTM": "x",
    "MatMulNBits": "x, w, s",
    "MatMulBnb4": "x, w, s",
    "MatMulInteger16": "w, w",
    "GatherBlockQuantized": "w, i, s",
    "QAttention": "x, w, s, s, s",
    "QEmbedLayerNormalization": "x",
    "QMoE": "x",
    "QOrderedMatMul": "x",
}
FLOATS = f"{CODES}, int8[2,2] w = {{1,2,3,4}}, int64[2] i = {{0,1}}"
FUNCTIONS = {
    "Q of 1 input": ("QuantizeLinear (a) => (c) { c = Relu (a) }", "y = my.QuantizeLinear (x)"),
    "Q of 2 inputs": ("QuantizeLinear (a, b) => (c) { c = Mul (a, b) }", "y = my.QuantizeLinear (x, s)"),
    "DQ of 1 input": ("DequantizeLinear (a) => (c) { c = Relu (a) }", "y = my.DequantizeLinear (x)"),
    "DQ of floats": ("DequantizeLinear (a, b) => (c) { c = Mul (a, b) }", "y = my.DequantizeLinear (x, s)"),
    "Q that is one": (
        "QuantizeLinear (a, b, d) => (c) { c = QuantizeLinear (a, b, d) }",
        "q = my.QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)",
    ),
    "DQ that is one": (
        "DequantizeLinear (a, b, d) => (c) { c = DequantizeLinear (a, b, d) }",
        "q = QuantizeLinear (x, s, z) y = my.DequantizeLinear (q, s, z)",
    ),
    "Q of integers": (
        "QuantizeLinear (a, b) => (c) { c = Mul (a, b) }",
        "k = Cast <to = 6> (x) t = Cast <to = 6> (s) m = my.QuantizeLinear (k, t) y = Cast <to = 1> (m)",
    ),
    "Relu": ("Relu (a) => (c) { c = Neg (a) }", "y = my.Relu (x)"),
}


def cases() -> Iterator[Case]:
    for op_type, inputs in ON_CODES.items():
        text = f"g (int8[2,2] x) => (int8[2,2] y) <{CODES}> {{ y = {op_type} ({inputs}) }}"
        yield Case(f"{op_type} without a domain", _parsed(text))
    for op_type, inputs in ON_FLOATS.items():
        text = f"g (float[2,2] x) => (float[2,2] y) <{FLOATS}> {{ y = {op_type} ({inputs}) }}"
        yield Case(f"{op_type} without a domain", _parsed(text))
    for name, (function, body) in FUNCTIONS.items():
        text = f"g (float[1,4] x) => (float[1,4] y) <{CODES}> {{ {body} }}"
        yield Case(f"a function called as {name}", _parsed(f'{text} <domain: "my", opset_import: ["": 21]> {function}'))


def _parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21, "my": 1]>\n{text}')
