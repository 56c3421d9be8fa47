"""A scale of one element becomes a scalar, and so does its zero point."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, attributes, carried_out, constant, maker, node, read, refusal

from qdqtool.linting.rules import Fix, RuleContext
from qdqtool.linting.rules.fixes.scales import scalar_fixes

X = np.float32([[1, -2, 3, 70]])


def pair(shape: str, count: int, *, zero_point: bool = True, attribute: str = "") -> RuleContext:
    values = ", ".join(["0.5"] * count)
    zeros = f", int8{shape} z = {{{', '.join(['3'] * count)}}}" if zero_point else ""
    names = "s, z" if zero_point else "s"
    return read(
        f"""
        agraph (float[1,4] x) => (float[1,4] y) <float{shape} s = {{{values}}}{zeros}> {{
            q = QuantizeLinear {attribute} (x, {names})
            y = DequantizeLinear {attribute} (q, {names})
        }}
        """
    )


def fixes(context: RuleContext) -> tuple[Fix, ...]:
    return scalar_fixes(maker(context, "y"))


@pytest.mark.parametrize(
    ("shape", "count", "offered"),
    [("", 1, False), ("[1]", 1, True), ("[1,1]", 1, True), ("[4]", 4, False), ("[1,4]", 4, False), ("[2]", 2, False)],
)
def test_one_element_of_any_rank_is_made_a_scalar(shape: str, count: int, *, offered: bool):
    assert [fix.description for fix in fixes(pair(shape, count))] == ["makes the one-element scale a scalar"] * offered


def test_a_scale_of_unknown_shape_is_left_alone():
    context = read(
        """
        agraph (float[1,4] x, float[N] n) => (float[1,4] y) {
            s = NonZero (n)
            y = DequantizeLinear (x, s)
        }
        """
    )
    assert fixes(context) == ()


@pytest.mark.parametrize("zero_point", [True, False])
def test_scale_and_zero_point_become_scalars(*, zero_point: bool):
    context = pair("[1]", 1, zero_point=zero_point)
    (fix,) = fixes(context)
    fixed = carried_out(context, fix)

    indices = (1, 2) if zero_point else (1,)
    assert [(constant(fixed, "y", index).shape, float(constant(fixed, "y", index))) for index in indices] == [
        ((), 0.5),
        ((), 3.0),
    ][: len(indices)]
    assert len(node(fixed, "y").input) == 1 + len(indices)
    assert_same_bits(context, fixed, x=X)


def test_a_scalar_has_no_blocks():
    context = pair("[1,1]", 1, attribute="<axis = 1, block_size = 4>")
    (fix,) = fixes(context)

    assert attributes(carried_out(context, fix), "y") == {"axis": 1}


def test_without_blocks_no_attribute_changes():
    context = pair("[1]", 1, attribute="<axis = 1>")
    (fix,) = fixes(context)

    assert attributes(carried_out(context, fix), "y") == {"axis": 1}


@pytest.mark.parametrize(
    ("inputs", "constants"),
    [
        ("float[1,4] x, float[1] s", "int8[1] z = {0}"),
        ("float[1,4] x, int8[1] z", "float[1] s = {0.5}"),
        ("float[1,4] x", "float[1] s = {0.5}, int8[2] z = {0, 0}"),
    ],
)
def test_what_is_not_one_constant_is_refused(inputs: str, constants: str):
    context = read(
        f"""
        agraph ({inputs}) => (float[1,4] y) <{constants}> {{
            q = QuantizeLinear (x, s, z)
            y = DequantizeLinear (q, s, z)
        }}
        """
    )
    (fix,) = fixes(context)

    assert refusal(context, fix) == "its scale or zero point is not constant, or has more than one element"
