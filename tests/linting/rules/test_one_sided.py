"""QL302: products of which one operand is quantized; Gemm and MatMul may have quantized weights alone."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import tensor
from support.fixing import attributes, carried_out, constant, descriptions, node, read, refusal
from support.one_rule import findings, messages
from support.ort_verdict import ort_outputs

from qdqtool.linting.rules import Fix, RuleContext
from qdqtool.linting.rules.one_sided import pairing_fixes

QUANTIZED = {"x": "qx = QuantizeLinear (x, s) dx = DequantizeLinear (qx, s) ", "w": "dw = DequantizeLinear (w, s) "}


def product(operator: str, left: str, right: str) -> str:
    shape = "[2, 2]" if operator == "MatMul" else "[2, 2, 1, 1]"
    sides = "".join(QUANTIZED.get(side.removeprefix("d"), "") for side in {left, right} if side.startswith("d"))
    return f"""agraph (float{shape} x, float{shape} u) => (float[] y)
    <int8{shape} w = {{1, 2, 3, 4}}, float{shape} f = {{1, 2, 3, 4}}, float s = {{1}}> {{
        {sides} y = {operator} ({left}, {right})
    }}"""


def one(quantized: str, other: str) -> list[str]:
    return [f"the {quantized} is quantized, the {other} is not"]


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        ("MatMul", "x", "f", []),
        ("MatMul", "dx", "dw", []),
        ("MatMul", "x", "dw", []),
        ("MatMul", "dw", "x", []),
        ("MatMul", "dx", "f", one("activation 'dx'", "weight 'f'")),
        ("MatMul", "dx", "u", one("activation 'dx'", "activation 'u'")),
        ("MatMul", "u", "dx", one("activation 'dx'", "activation 'u'")),
        ("MatMul", "dx", "", one("activation 'dx'", "activation ''")),
        ("Conv", "dx", "dw", []),
        ("Conv", "x", "dw", one("weight 'dw'", "activation 'x'")),
        ("Conv", "dx", "f", one("activation 'dx'", "weight 'f'")),
    ],
)
def test_sides(operator: str, left: str, right: str, expected: list[str]):
    assert messages("QL302", product(operator, left, right)) == expected


@pytest.mark.parametrize(("quantized", "severity", "fixable"), [("", "info", False), ("qx", "warning", True)])
def test_weights_alone_of_a_whole_model_are_chosen(quantized: str, severity: str, fixable: bool):
    """`--quantize-mode int8-weight-only` makes such Convs; where activations are quantized, one was forgotten."""
    text = f"""agraph (float[2, 2, 1, 1] x) => (float[] y, float[] z)
    <int8[2, 2, 1, 1] w = {{1, 2, 3, 4}}, float s = {{1}}> {{
        {QUANTIZED["w"]} y = Conv (x, dw)
        {QUANTIZED["x"] if quantized else ""} z = Neg ({"dx" if quantized else "x"})
    }}"""
    (finding,) = findings("QL302", text)
    assert (finding.severity, finding.fixable) == (severity, fixable)


WEIGHT = "float[4,2] w = {1, -2, 3, 0.3, -0.7, 6, 7, -8}"


def left(kind: str = "int8", weight: str = WEIGHT, *, extra: str = "") -> RuleContext:
    """x [2, 4] -> Q -> DQ -> MatMul with a float weight [4, 2] -> y."""
    return read(
        f"""
        agraph (float[2,4] x) => (float[2,2] y) <float s = {{0.5}}, {kind} z = {{0}}, {weight}> {{
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            {extra}
            y = MatMul ({"p" if extra else "d"}, w)
        }}
        """
    )


def fixes(context: RuleContext) -> tuple[Fix, ...]:
    (product,) = context.products
    return pairing_fixes(context, product)


UNPAIRED = "removes the pair from input 0"


@pytest.mark.parametrize(
    ("kind", "weight"),
    [
        ("int8", "int8"),
        ("uint8", "int8"),
        ("float8e4m3fn", "float8e4m3fn"),
        ("int4", None),
        ("int16", None),
        ("float8e5m2", None),
    ],
)
def test_the_weight_gets_the_type_that_is_multiplied_with_that_of_the_activation(kind: str, weight: str | None):
    offered = [f"stores the weight 'w' as {weight} codes", f"quantizes the weight 'w' to {weight}"] if weight else []
    assert descriptions(fixes(left(kind))) == [*offered, UNPAIRED]


@pytest.mark.parametrize(("kind", "most"), [("int8", 127), ("float8e4m3fn", 448)])
def test_every_column_of_the_weight_gets_a_scale(kind: str, most: int):
    context = left(kind)
    fixed = carried_out(context, fixes(context)[1])
    values = np.float32([1, -2, 3, 0.3, -0.7, 6, 7, -8]).reshape(4, 2)

    read_now = node(fixed, "y").input[1]
    codes, scale, zero = (constant(fixed, read_now, index) for index in range(3))
    np.testing.assert_allclose(scale, np.abs(values).max(axis=0) / most, rtol=1e-6)
    dtype = np.int8 if kind == "int8" else ml_dtypes.float8_e4m3fn
    rounded = np.rint(values / scale) if kind == "int8" else (values / scale).astype(dtype)
    np.testing.assert_array_equal(codes.astype(float), rounded.astype(float))
    assert (zero.dtype, zero.shape, zero.astype(float).any()) == (dtype, (2,), False)
    assert attributes(fixed, read_now) == {"axis": 1}
    assert node(fixed, read_now).input[0] == "w_quantized"


def test_an_operator_without_an_output_axis_gets_one_scale():
    proto = left(weight=WEIGHT.replace("[4,2]", "[4,2,1]")).model.proto
    proto.graph.node[2].op_type = "Einsum"
    proto.graph.node[2].attribute.append(onnx.helper.make_attribute("equation", "ab,bcd->acd"))
    context = read(proto)
    fixed = carried_out(context, fixes(context)[1])

    read_now = node(fixed, "y").input[1]
    assert (constant(fixed, read_now, 1).shape, attributes(fixed, read_now)) == ((), {})


@pytest.mark.parametrize("weight", ["", "nowhere"])
def test_without_a_stored_weight_the_pair_can_only_go(weight: str):
    proto = left().model.proto
    if weight:
        proto.graph.node[2].input[1] = weight
    else:
        del proto.graph.node[2].input[1]

    assert descriptions(fixes(read(proto))) == [UNPAIRED]


@pytest.mark.parametrize(
    ("kind", "word"), [(T.DOUBLE, "float64"), (T.INT32, "int32"), (T.INT64, "int64"), (T.INT8, "int8")]
)
def test_a_weight_that_no_kernel_quantizes_is_left_alone(kind: int, word: str):
    proto = left().model.proto
    (weight,) = [each for each in proto.graph.initializer if each.name == "w"]
    weight.CopyFrom(tensor("w", np.ones((4, 2)), kind))
    context = read(proto)

    assert refusal(context, fixes(context)[1]) == f"the weight is {word}"


@pytest.mark.parametrize("kind", [T.FLOAT16, T.BFLOAT16])
def test_scales_have_the_type_of_the_weight(kind: int):
    proto = left().model.proto
    (weight,) = [each for each in proto.graph.initializer if each.name == "w"]
    weight.CopyFrom(tensor("w", np.ones((4, 2)), kind))
    context = read(proto)
    fixed = carried_out(context, fixes(context)[1])

    assert constant(fixed, node(fixed, "y").input[1], 1).dtype == onnx.helper.tensor_dtype_to_np_dtype(kind)


def test_the_operator_reads_what_stands_in_front_of_the_pair():
    context = left()
    fixed = carried_out(context, fixes(context)[-1])
    x = np.float32([[0.1, 0.2, 0.3, 0.4], [1, 2, 3, -4]])

    assert node(fixed, "y").input[0] == "x"
    np.testing.assert_allclose(
        ort_outputs(fixed, {"x": x})["y"], x @ np.float32([[1, -2], [3, 0.3], [-0.7, 6], [7, -8]]), rtol=1e-5
    )


def test_a_pair_behind_another_operator_stays():
    context = left(extra="p = Identity (d)")

    assert refusal(context, fixes(context)[-1]) == "other operators stand between the pair and its reader"


def test_a_stored_weight_whose_activation_is_float_is_made_float():
    context = read(
        """
        agraph (float[1,2,4,4] x) => (float[1,2,4,4] y) <int8[2,2,1,1] w = {1,2,3,4}, float s = {0.5}> {
            d = DequantizeLinear (w, s)
            y = Conv (x, d)
        }
        """
    )
    assert descriptions(fixes(context)) == ["stores the dequantized values as float"]


def test_a_second_activation_can_only_lose_its_pair():
    context = read(
        """
        agraph (float[2,2] x) => (float[2,2] y) <float s = {0.5}, int8 z = {0}, float[2,2] w = {1,2,3,4}> {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            y = MatMul (w, d)
        }
        """
    )
    (fix,) = fixes(context)
    fixed = carried_out(context, fix)

    assert fix.description == "removes the pair from input 1"
    assert list(node(fixed, "y").input) == ["w", "x"]


def test_a_weight_that_consists_of_codes_and_scales_is_stored_as_those_and_no_other_weight_is():
    context = left()
    assert refusal(context, fixes(context)[0]) == "the weight does not consist of int8 codes times scales"

    context = left(weight="float[4,2] w = {31.75, 63.5, -1, 2, 3, -7, 0.25, 0}")
    fixed = carried_out(context, fixes(context)[0])
    read_now = node(fixed, "y").input[1]
    np.testing.assert_array_equal(constant(fixed, read_now, 0), [[127, 127], [-4, 4], [12, -14], [1, 0]])
    np.testing.assert_array_equal(constant(fixed, read_now, 1), np.float32([0.25, 0.5]))
