"""A computed scale or zero point becomes an initializer, for all Q and DQ that read it and for nothing else."""

import numpy as np
import onnx
from support.fixing import assert_same_bits, carried_out, constant, descriptions, maker, node, read, refusal

from qdqtool.linting.rules.fixes.scales import folded_fixes

SHARED = """
agraph (float[4] x) => (float[4] y, float[4] m, int8 c) <float a = {0.5}, float b = {0.25}, int8 z = {0}> {
    s = Mul (a, b)
    q = QuantizeLinear (x, s, z)
    y = DequantizeLinear (q, s, z)
    m = Mul (x, s)
    c = QuantizeLinear (s, a, z)
}
"""


def test_only_what_reads_it_as_a_scale_reads_the_initializer():
    context = read(SHARED)
    (fix,) = folded_fixes(context, maker(context, "q"), 1)
    fixed = carried_out(context, fix)

    assert fix.description == "stores 's' as an initializer"
    assert list(node(fixed, "m").input) == ["x", "s"]
    assert list(node(fixed, "c").input) == ["s", "a", "z"]
    for output in "qy":
        stored = constant(fixed, output, 1)
        assert (stored.dtype, stored.shape, float(stored)) == (np.float32, (), 0.125)
    assert_same_bits(context, fixed, x=np.float32([0.1, 0.2, -3, 50]))


def test_a_zero_point_keeps_its_type():
    context = read(
        """
        agraph (float[4] x) => (float[4] y) <float s = {0.5}, int32 n = {7}> {
            z = Cast <to = 3> (n)
            q = QuantizeLinear (x, s, z)
            y = DequantizeLinear (q, s, z)
        }
        """
    )
    (fix,) = folded_fixes(context, maker(context, "y"), 2)
    fixed = carried_out(context, fix)

    assert [constant(fixed, output, 2) for output in "qy"] == [np.int8(7)] * 2
    assert constant(fixed, "q", 2).dtype == np.int8
    assert_same_bits(context, fixed, x=np.float32([0.1, 0.2, -3, 50]))


def test_there_is_no_fix_for_what_is_absent_or_comes_from_the_caller():
    context = read(
        """
        agraph (float[4] x, float s) => (float[4] y) {
            q = QuantizeLinear (x, s)
            y = DequantizeLinear (q, s)
        }
        """
    )
    for entry in context.qdq.nodes:
        assert folded_fixes(context, entry, 1) == ()
        assert folded_fixes(context, entry, 2) == ()


def test_what_cannot_be_computed_is_not_stored():
    context = read(
        """
        agraph (float[4] x) => (float[4] y) <float[2] a = {0.5, 1}, float[3] b = {1, 2, 3}> {
            s = Mul (a, b)
            q = QuantizeLinear (x, s)
            y = DequantizeLinear (q, s)
        }
        """
    )
    (fix,) = folded_fixes(context, maker(context, "q"), 1)

    assert refusal(context, fix) == "its value cannot be computed from constants"


def test_a_scale_in_a_function_is_stored_without_types():
    model = onnx.parser.parse_model(
        """
        <ir_version: 11, opset_import: ["": 23, "local": 1]>
        agraph (float[4] x) => (float[4] y) { y = local.Pair (x) }
        <domain: "local", opset_import: ["": 23]>
        Pair (x) => (y) {
            a = Constant <value = float {0.5}> ()
            s = Identity (a)
            q = QuantizeLinear (x, s)
            y = DequantizeLinear (q, s)
        }
        """
    )
    context = read(model)
    assert descriptions(folded_fixes(context, maker(context, "q"), 1)) == ["stores 's' as an initializer"]
