"""QL312: which operators may stand between stored codes and what reads them."""

import numpy as np
import onnx
import pytest
from support.one_rule import findings, fixed, messages, nodes, parsed, unfit

THROUGH = "stored codes reach this DQ through"


def reading(body: str) -> str:
    """A graph with stored codes ``w`` [2, 2] and a stored zero point ``wz``."""
    return f"""agraph (float[1,2] x, bool b) => (float[1,2] y)
    <int8[2,2] w = {{1,2,3,4}}, float[2,2] f = {{1,2,3,4}}, float s = {{1}}, int8 wz = {{0}}, int8 other = {{5}},
     int64[1] i = {{0}}> {{
        {body}
    }}"""


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("d = DequantizeLinear (w, s)", None),
        ("[k] c = Constant <value = int8[2] {1, 2}> () d = DequantizeLinear (c, s)", None),
        ("c = Cast <to = 3> (f) d = DequantizeLinear (c, s)", None),
        ("t = DequantizeLinear (w, s) d = DequantizeLinear (t, s)", None),
        ("a = Cast <to = 3> (w) d = DequantizeLinear (a, s)", "Cast 'Cast -> a'"),
        ("[k] a = Identity (w) d = DequantizeLinear (a, s)", "Identity 'k'"),
        ("[k] a = Identity <to = 3> (f) d = DequantizeLinear (a, s)", "Identity 'k'"),
        ("[k] a = Identity (w) t = Transpose (a) d = DequantizeLinear (t, s)", "Transpose 'Transpose -> t'"),
        ("q = QuantizeLinear (x, s, wz) d = DequantizeLinear (q, s)", None),
    ],
)
def test_what_stands_between_codes_and_their_dq(body: str, reported: str | None):
    found = findings("QL312", reading(body))

    assert [each.message for each in found] == ([f"{THROUGH} {reported}"] if reported else [])
    assert [each.op_type for each in found] == (["DequantizeLinear"] if reported else [])


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("[k] a = Relu (w)", ["k"]),
        ("[k] a = Relu (f)", []),
        ("[k] a = MyPlugin (w)", []),
        ("[k] a = trt.plugins.Relu (w)", []),
        ("[k] a = ai.onnx.Relu (w)", ["k"]),
        ("[k] a = MatMul (w, w)", []),
        ("[k] a = MatMulInteger (w, w)", []),
        ("[k] a = Clip (w, other, wz)", []),
        ("d = DequantizeLinear (w, s) [k] a = Relu (w)", ["k"]),
        ("[plugin] p = MyPlugin (w) [k] a = Relu (w)", ["k"]),
        ("c = Constant <value = int8[2] {1, 2}> () [k] a = Neg (c)", ["k"]),
        # What reads a constant that is computed is no reader of stored codes.
        ("[k] a = Identity (w) [l] t = Neg (a)", ["k"]),
    ],
)
def test_other_readers_of_stored_codes(body: str, reported: list[str]):
    assert nodes("QL312", reading(body)) == reported


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        ("[k] a = Identity (wz) q = QuantizeLinear (x, s, a) y = DequantizeLinear (q, s, a)", False),
        ("[k] a = Identity (wz) a2 = Identity (a) q = QuantizeLinear (x, s, a2)", False),
        ("[k] a = Squeeze (wz) q = QuantizeLinear (x, s, a)", False),
        ("[k] a = Identity (wz)", True),
        ("[k] a = Identity (wz) a2 = Identity (a)", True),
        ("[k] a = Identity (wz) c = Where (b, other, a)", True),
        ("[k] a = Identity (wz) q = QuantizeLinear (x, s, a) r = Neg (a)", True),
        ("[k] a = Identity (wz) a2 = Identity (a) q = QuantizeLinear (x, s, a2) r = Neg (a)", True),
        ("[k] a = Identity (wz) r = Neg (a) q = QuantizeLinear (x, s, r)", True),
    ],
)
def test_an_operator_in_front_of_zero_points_alone_is_folded(body: str, reported: bool):
    assert ("k" in nodes("QL312", reading(body))) == reported


def test_the_message_names_constant_and_type():
    (found,) = findings("QL312", reading("[k] a = Gather (w, i)"))

    assert found.message == "this Gather reads 'w', a constant of int8"
    assert (found.tensor, found.found, found.expected) == ("w", "Gather", "DequantizeLinear")


def test_an_operator_of_which_each_reads_the_one_before_twice():
    body = "a0 = Identity (w) " + " ".join(f"a{n} = Add (a{n - 1}, a{n - 1})" for n in range(1, 41))

    assert messages("QL312", reading(f"{body} d = DequantizeLinear (a40, s)")) == [f"{THROUGH} Add 'Add -> a40'"]


def test_the_fix_stores_what_the_operators_make():
    model = fixed("QL312", reading("t = Transpose (w) y = DequantizeLinear (t, s)"))

    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    (reader,) = [each for each in model.graph.node if each.op_type == "DequantizeLinear"]
    np.testing.assert_array_equal(stored[reader.input[0]], np.int8([[1, 3], [2, 4]]))
    assert findings("QL312", model)[1:] == []


def test_codes_that_a_clip_keeps_in_a_narrow_range_are_stored():
    # The form of Brevitas: int8 codes, Clip to a narrow range or to that of 4 bits, DQ.
    given = parsed(reading("c = Clip (w, low, high) y = DequantizeLinear (c, s, wz)"))
    for name, value in (("low", -2), ("high", 3)):
        given.graph.initializer.append(onnx.numpy_helper.from_array(np.int8(value), name))
    model = fixed("QL312", given)

    assert [node.op_type for node in model.graph.node if node.output[0] == "y"] == ["DequantizeLinear"]
    (reader,) = [each for each in model.graph.node if each.op_type == "DequantizeLinear"]
    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    np.testing.assert_array_equal(stored[reader.input[0]], np.int8([[1, 2], [3, 3]]))


def test_codes_that_are_too_many_to_fold_are_left():
    body = "n = Constant <value = int64[2] {8192, 4096}> () a = Expand (wz, n) d = DequantizeLinear (a, s)"

    assert messages("QL312", reading(body)) == [f"{THROUGH} Expand 'Expand -> a'"]
    assert unfit("QL312", reading(body)) == "the constant is too large to fold, or its type is unknown"


def test_codes_of_unknown_type_are_left():
    body = "a = Transpose <perm = [0, 0]> (w) d = DequantizeLinear (a, s)"

    assert messages("QL312", reading(body)) == [f"{THROUGH} Transpose 'Transpose -> a'"]
    assert unfit("QL312", reading(body)) == "the constant is too large to fold, or its type is unknown"
