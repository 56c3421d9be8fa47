"""Scales move to the output channels: which axis of the stored weight that is, and for whom it is right."""

import numpy as np
import pytest
from support.fixing import attributes, carried_out, constant, descriptions, read, refusal
from support.ort_verdict import ort_outputs

from qdqtool.linting.rules import Fix, RuleContext
from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.weight_axis import axis_fixes

ROWS = """
agraph (float[2,3] x, float[1,2,4,4] image) => (float[2,4] y{outputs})
<int8[3,4] w = {{1,-2,3,100,5,-6,-7,8,9,40,11,127}}, float[3] s = {{0.1, 0.25, 2}}, int8[3] z = {{0, 5, 0}},
 float[4,2] f = {{1,2,3,4,5,6,7,8}}, int8[2,2,1,1] v = {{1,2,3,4}}, float[2] vs = {{1, 2}}> {{
    d = DequantizeLinear <axis = 0> (w, s, z)
    y = MatMul (x, d)
    {more}
}}
"""


def fixes(context: RuleContext, wanted: int, output: str = "y") -> tuple[Fix, ...]:
    return axis_fixes(context, product(context, output), wanted)


def product(context: RuleContext, output: str) -> Product:
    (found,) = [each for each in context.products if each.node.key == (output,)]
    return found


@pytest.mark.parametrize(
    ("outputs", "more"),
    [
        ("", ""),
        (", float[2,2] m", "m = MatMul (y, f)"),
        (", float[1,2,4,4] c", "e = DequantizeLinear <axis = 0> (v, vs)  c = Conv (image, e)"),
        (", float[2,4] g", "g = Gemm (x, d)"),
    ],
    ids=["alone", "beside a float product", "beside a product of another weight", "with another of the same axis"],
)
def test_every_column_gets_the_scale_that_holds_it(outputs: str, more: str):
    context = read(ROWS.format(outputs=outputs, more=more))
    (fix,) = fixes(context, 1)
    fixed = carried_out(context, fix)

    assert fix.description == "quantizes the weight again on axis 1"
    assert attributes(fixed, "d") == {"axis": 1}
    codes = np.array([1, -2, 3, 100, 5, -6, -7, 8, 9, 40, 11, 127]).reshape(3, 4) - [[0], [5], [0]]
    values = codes * np.float32([[0.1], [0.25], [2]])
    scale = constant(fixed, "d", 1)
    np.testing.assert_allclose(scale, np.abs(values).max(axis=0) / 127, rtol=1e-6)
    assert np.all(np.abs(constant(fixed, "d", 0) * scale - values) <= scale * 0.5001)
    x = np.eye(2, 3, dtype=np.float32)
    after = ort_outputs(fixed, {"x": x, "image": np.zeros((1, 2, 4, 4), np.float32)})["y"]
    np.testing.assert_allclose(after, (constant(fixed, "d", 0) * scale)[:2], rtol=1e-6)


@pytest.mark.parametrize(("perm", "axis"), [("[0, 1]", 1), ("[1, 0]", 0)])
def test_the_axis_is_that_of_the_stored_weight(perm: str, axis: int):
    context = read(
        f"""
        agraph (float[2,3] x) => (float[2,3] y) <int8[3,3] w = {{1,2,3,4,5,6,7,8,9}}, float[3] s = {{0.1, 0.2, 0.3}}> {{
            d = DequantizeLinear <axis = {1 - axis}> (w, s)
            t = Transpose <perm = {perm}> (d)
            y = MatMul (x, t)
        }}
        """
    )
    (fix,) = fixes(context, 1)

    assert fix.description == f"quantizes the weight again on axis {axis}"
    assert attributes(carried_out(context, fix), "d") == {"axis": axis}


@pytest.mark.parametrize(("zero", "symmetric"), [(0, True), (85, False)])
def test_unsigned_codes_of_negative_values_keep_a_zero_point(zero: int, symmetric: bool):
    context = read(
        f"""
        agraph (float[2,2] x) => (float[2,3] y)
        <uint8[2,3] w = {{90,170,85,1,200,85}}, float[2] s = {{0.1, 0.2}}, uint8[2] z = {{{zero}, {zero}}}> {{
            d = DequantizeLinear <axis = 0> (w, s, z)
            y = MatMul (x, d)
        }}
        """
    )
    fixed = carried_out(context, *fixes(context, 1))

    values = (np.array([[90, 170, 85], [1, 200, 85]]) - zero) * np.float32([[0.1], [0.2]])
    codes, scale, zeros = (constant(fixed, "d", index) for index in range(3))
    assert codes.dtype == zeros.dtype == np.uint8
    assert np.any(zeros) != symmetric
    assert np.all(np.abs((codes.astype(float) - zeros) * scale - values) <= scale * 0.5001)


def test_there_is_no_fix_for_an_axis_that_the_weight_has_not():
    assert fixes(read(ROWS.format(outputs="", more="")), 2) == ()


def test_there_is_no_fix_for_a_weight_of_unknown_shape():
    context = read(
        """
        agraph (float[2,3] x, int8[N] n) => (float[M] y) <float[3] s = {0.1, 0.2, 0.3}> {
            w = local.Unknown (n)
            d = DequantizeLinear <axis = 0> (w, s)
            y = MatMul (x, d)
        }
        """
    )
    assert fixes(context, 1) == ()


def test_a_consumer_that_wants_no_axis_is_a_reason_not_to_fix():
    """Behind the Reshape no axis of the stored weight can be told, and two axes of the product are kept."""
    context = read(
        f"""
        agraph (float[2,2,2,2] image) => (float[2,2,2,2] y) <int8[2,2,2,2] w = {{{",".join("1" * 16)}}},
         float[2] s = {{0.1, 0.2}}, int64[4] shape = {{2, 2, 2, 2}}> {{
            d = DequantizeLinear <axis = 1> (w, s)
            y = Conv (image, d)
            moved = Reshape (d, shape)
            r = Einsum <equation = "abcd,efgd->abcefg"> (image, moved)
        }}
        """
    )
    (fix,) = fixes(context, 0)

    assert refusal(context, fix) == "its consumers need different axes"


@pytest.mark.parametrize(
    "reader",
    [
        "r = Conv (image, d)",
        'r = Einsum <equation = "abcd,efgd->abcefg"> (image, d)',
        "t = Transpose <perm = [0, 1, 3, 2]> (d)  r = MatMul (image, t)",
    ],
)
def test_consumers_that_want_different_axes_are_a_reason_not_to_fix(reader: str):
    context = read(
        f"""
        agraph (float[2,2,2,2] image) => (float[2,2,2,2] y) <int8[2,2,2,2] w = {{{",".join("1" * 16)}}},
         float[2] s = {{0.1, 0.2}}> {{
            d = DequantizeLinear <axis = 1> (w, s)
            y = MatMul (image, d)
            {reader}
        }}
        """
    )
    (fix,) = fixes(context, 3)

    assert descriptions((fix,)) == ["quantizes the weight again on axis 3"]
    assert refusal(context, fix) == "its consumers need different axes"
