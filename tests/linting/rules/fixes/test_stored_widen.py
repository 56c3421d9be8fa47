"""4-bit codes become the same int8 codes."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, constant, descriptions, maker, node, read

from qdqtool.linting.rules.fixes.stored import wider_fixes


def text(kind: str, zero_point: str = "") -> str:
    zeros = f", {kind}[2] z = {{{zero_point}}}" if zero_point else ""
    return f"""
    agraph (float[1,2] x) => (float[1,2] y) <{kind}[2,2] w = {{33, 103}}, float[2] s = {{0.5, 2}}{zeros}> {{
        d = DequantizeLinear <axis = 1> (w, s{", z" if zeros else ""})
        y = MatMul (x, d)
    }}
    """


@pytest.mark.parametrize("zero_point", ["", "83"])
@pytest.mark.parametrize("kind", ["int4", "uint4"])
def test_codes_and_zero_points_are_stored_as_int8(kind: str, zero_point: str):
    """Two codes share a byte: 33 is 1 and 2, 103 is 7 and 6, 83 is 3 and 5."""
    context = read(text(kind, zero_point))
    (fix,) = wider_fixes(maker(context, "d"))
    fixed = carried_out(context, fix)

    assert fix.description == "stores the same codes as int8"
    assert constant(fixed, "d", 0).dtype == np.int8
    assert constant(fixed, "d", 0).tolist() == [[1, 2], [7, 6]]
    assert len(node(fixed, "d").input) == (3 if zero_point else 2)
    if zero_point:
        assert constant(fixed, "d", 2).tolist() == [3, 5]
        assert constant(fixed, "d", 2).dtype == np.int8
        assert node(fixed, "d").input[2] == "z_1"
    assert_same_bits(context, fixed, x=np.float32([[1, -3]]))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_other_codes_stay(kind: str):
    context = read(
        f"agraph () => (float[2] d) <{kind}[2] w = {{1, 2}}, float s = {{0.5}}> {{ d = DequantizeLinear (w, s) }}"
    )

    assert wider_fixes(maker(context, "d")) == ()


def test_a_q_stays():
    context = read(
        """
        agraph (float[2] x) => (float[2] d) <float s = {0.5}> {
            q = QuantizeLinear <output_dtype = 22> (x, s)
            d = DequantizeLinear (q, s)
        }
        """
    )
    assert wider_fixes(maker(context, "q")) == ()
    assert descriptions(wider_fixes(maker(context, "d"))) == ["stores the same codes as int8"]
