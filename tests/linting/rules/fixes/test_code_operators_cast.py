"""A Cast to the type that the codes have already is taken out, and no other."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, node, read, refusal

from qdqtool.linting.rules.fixes.code_operators import cast_fixes

MODEL = """
agraph (float[4] x) => (float[4] y) <float s = {{0.5}}, uint8 z = {{3}}> {{
    q = QuantizeLinear (x, s{zero})
    c = Cast <to = {to}> (q)
    y = DequantizeLinear (c, s{zero})
}}"""


@pytest.mark.parametrize("zero", ["", ", z"])
def test_the_dq_reads_the_codes_of_the_q(zero: str):
    context = read(MODEL.format(zero=zero, to=2))
    (cast,) = [each for each in context.nodes if each.is_op("Cast")]
    (fix,) = cast_fixes(context, cast)
    fixed = carried_out(context, fix)

    assert node(fixed, "y").input[0] == "q"
    assert_same_bits(context, fixed, x=np.float32([-1, 0.3, 100, 500]))


def test_a_cast_to_another_type_stays():
    context = read(MODEL.format(zero=", z", to=3))
    assert [cast_fixes(context, each) for each in context.nodes] == [()] * 3


def test_an_output_of_the_model_stays():
    context = read("""
    agraph (float[4] x) => (uint8[4] c) <float s = {0.5}, uint8 z = {3}> {
        q = QuantizeLinear (x, s, z)
        c = Cast <to = 2> (q)
    }""")
    (cast,) = [each for each in context.nodes if each.is_op("Cast")]
    (fix,) = cast_fixes(context, cast)
    assert refusal(context, fix) == "'c' is an output"
