"""Where zero points have to be 0: by target, by type, and by the kind of node."""

import numpy as np
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, tensor
from support.corpus._case import node as made
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QP102"
KINDS = {
    T.INT8: "int8",
    T.UINT8: "uint8",
    T.INT4: "int4",
    T.INT16: "int16",
    T.INT32: "int32",
    T.FLOAT8E4M3FN: "float8e4m3fn",
}
SYMMETRIC = {
    "onnx": {"float8e4m3fn"},
    "ort-cpu": {"float8e4m3fn"},
    "tensorrt": {"int8", "uint8", "int4", "float8e4m3fn"},
}


def model(kind: int, zeros: object, *, quantize: bool) -> RuleContext:
    """A Q, or a DQ of codes that are an input."""
    count = np.size(zeros)
    constants = [tensor("s", np.ones(np.shape(zeros))), tensor("z", zeros, kind)]
    nodes = [made("QuantizeLinear" if quantize else "DequantizeLinear", ["x", "s", "z"], "y", axis=0)]
    x, y = (T.FLOAT, kind) if quantize else (kind, T.FLOAT)
    return read(graph_model(nodes, [("x", x, [count, 2])], [("y", y, [count, 2])], constants, 23, 11))


@pytest.mark.parametrize("target", SYMMETRIC)
@pytest.mark.parametrize("quantize", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_where_zero_points_have_to_be_0(kind: int, target: str, *, quantize: bool):
    """TensorRT reads the zero point of any Q as one of int8."""
    context = model(kind, 1, quantize=quantize)
    found = [(finding.message, finding.expected) for finding, _ in located(CODE, context, target)]
    judged = KINDS[kind] in SYMMETRIC[target] or (target == "tensorrt" and quantize)
    ends = (
        ", and its codes are the output 'y' of the model"
        if quantize
        else ", and its codes are the input 'x' of the model"
    )
    message = f"zero point 'z' of this {'Q' if quantize else 'DQ'} is 1{ends}"

    assert found == ([(message, f"0 for {KINDS[kind]}")] if judged else [])
    assert located(CODE, model(kind, 0, quantize=quantize), target) == []


@pytest.mark.parametrize(
    ("zeros", "found"),
    [([0, 0, 0], None), ([0, 3, 0], "3 in channel 1"), ([0, 3, -5], "3 in channel 1 (and 1 more)"), ([], None)],
    ids=str,
)
def test_every_zero_point_is_looked_at(zeros: list[int], found: str | None):
    assert [finding.found for finding, _ in located(CODE, model(T.INT8, zeros, quantize=True))] == [found] * bool(found)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("t = Transpose (i) y = DequantizeLinear (t, s, z)", ", and its codes are the input 'i' of the model"),
        ("k = Identity (c) y = DequantizeLinear (k, s, z)", ""),
        ("k = Neg (i) y = DequantizeLinear (k, s, z)", ""),
        ("o = QuantizeLinear (x, s, z)", ", and its codes are the output 'o' of the model"),
        ("q = QuantizeLinear (x, s, z) o = Transpose (q)", ", and its codes are the output 'o' of the model"),
        ("q = QuantizeLinear (x, s, z) p = Identity (q) o = Neg (p)", ""),
    ],
)
def test_codes_that_are_an_input_or_output_are_named(body: str, words: str):
    context = read(
        "agraph (float[2,2] x, int8[2,2] i) => (int8[2,2] o) <float s = {1}, int8 z = {3}, int8[2,2] c = {1,2,3,4}> {"
        + body
        + "}"
    )
    assert {finding.message.partition(" is 3")[2] for finding, _ in located(CODE, context)} == {words}
