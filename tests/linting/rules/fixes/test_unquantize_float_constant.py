"""A DQ of a stored constant is replaced by the values that it makes."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, constant, maker, read, refusal

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.unquantize import float_fix

BIAS = """
agraph (float[2,3] x) => (float[2,3] y) <{kind}[3] b_quantized = {{1,-2,7}}, float[3] s = {{0.5, 0.25, 2}}> {{
    b = DequantizeLinear <axis = 0> (b_quantized, s)
    y = Add (x, b)
}}
"""


@pytest.mark.parametrize("kind", ["int32", "int8", "int16"])
def test_readers_read_the_same_values(kind: str):
    context = read(BIAS.format(kind=kind))
    fix = float_fix(maker(context, "b"))
    fixed = carried_out(context, fix)

    assert fix.description == "stores the dequantized values as float"
    assert constant(fixed, "y", 1).tolist() == [0.5, -0.5, 14]
    assert [each.name for each in fixed.graph.initializer][-1] == "b_float"
    assert_same_bits(context, fixed, x=np.float32([[1, 2, 3], [0, 0, 0.1]]))


def test_what_nobody_reads_is_left_alone():
    proto = read(BIAS.format(kind="int8")).model.proto
    proto.graph.node[0].output[0] = ""
    context: RuleContext = read(proto)

    assert refusal(context, float_fix(context.qdq.nodes[0])) == "nothing reads it"
