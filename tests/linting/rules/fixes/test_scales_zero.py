"""Scales of 0: exactly the same outputs where a weight is 0 there, a scale of 1 for activations, else refusals."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.fixing import assert_same_bits, carried_out, constant, descriptions, maker, node, read, refusal
from support.ort_verdict import ort_run

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.scales import zero_scale_fixes

X = np.float32([[1, -2, 3]])
DEAD, ONE = ["gives channels of zeros the scale 1"], ["gives the scale the value 1"]


def stored(scales: list[float], zero_point: list[int] | None = None, kind: str = "int8") -> RuleContext:
    """x [1, 3] times codes [3, 2] with a scale for each column."""
    zeros = f", {kind}[2] z = {{{zero_point[0]}, {zero_point[1]}}}" if zero_point else ""
    return read(
        f"""
        agraph (float[1,3] x) => (float[1,2] y)
        <{kind}[3,2] w = {{1,2,3,4,5,6}}, float[2] s = {{{scales[0]}, {scales[1]}}}{zeros}> {{
            d = DequantizeLinear <axis = 1> (w, s{", z" if zero_point else ""})
            y = MatMul (x, d)
        }}
        """
    )


def as_float(weight: str, scale: str = "0.5, 0", *, given: str = "") -> RuleContext:
    """The same with a float weight and its Q, which may have a scale of its own."""
    own = f", float[2] g = {{{given}}}" if given else ""
    return read(
        f"""
        agraph (float[1,3] x) => (float[1,2] y)
        <float[3,2] w = {{{weight}}}, float[2] s = {{{scale}}}, int8[2] z = {{0, 0}}{own}> {{
            q = QuantizeLinear <axis = 1> (w, {"g" if given else "s"}, z)
            d = DequantizeLinear <axis = 1> (q, s, z)
            y = MatMul (x, d)
        }}
        """
    )


@pytest.mark.parametrize("zero_point", [None, [0, 0]])
def test_codes_of_a_dead_channel_become_0(zero_point: list[int] | None):
    context = stored([0.5, 0], zero_point)
    fixes = zero_scale_fixes(context, maker(context, "d"))
    fixed = carried_out(context, fixes[0])

    assert descriptions(fixes) == DEAD
    assert constant(fixed, "d", 0).tolist() == [[1, 0], [3, 0], [5, 0]]
    assert constant(fixed, "d", 1).tolist() == [0.5, 1]
    assert_same_bits(context, fixed, x=X)


@pytest.mark.parametrize("zero_point", [[1, 0], [0, 1], [1, 1]])
def test_codes_with_zero_points_are_left_alone(zero_point: list[int]):
    context = stored([0.5, 0], zero_point)
    (fix,) = zero_scale_fixes(context, maker(context, "d"))

    assert refusal(context, fix) == "it has zero points"


def test_a_float_weight_that_is_0_there_gets_the_scale_1_on_both_sides():
    context = as_float("1, 0, 2, 0, 3, 0")
    (fix,) = zero_scale_fixes(context, maker(context, "d"))
    fixed = carried_out(context, fix)

    assert fix.description == DEAD[0]
    assert [constant(fixed, output, 1).tolist() for output in "qd"] == [[0.5, 1]] * 2
    assert np.isfinite(ort_run(fixed, X)).all()


@pytest.mark.parametrize("weight", ["1, 1, 2, 0, 3, 0", "1, 1, 2, 1, 3, 1", "0, 0.5, 0, 0, 0, 0", "1, 0.5, 1, 1, 1, 1"])
def test_a_float_weight_that_is_not_0_there_is_left_alone(weight: str):
    context = as_float(weight)
    (fix,) = zero_scale_fixes(context, maker(context, "d"))

    assert refusal(context, fix) == "the weight is not 0 where its scale is"


def test_the_q_of_a_weight_is_left_to_the_fix_of_its_dq():
    context = as_float("1, 0, 2, 0, 3, 0")

    assert zero_scale_fixes(context, maker(context, "q")) == ()


@pytest.mark.parametrize(
    "scales", [[-0.5, 0], [0, float("inf")], [0, float("nan")], [float("-inf"), 0], [0, -1]], ids=str
)
def test_other_illegal_scales_need_a_calibration(scales: list[float]):
    context = stored(scales)
    (fix,) = zero_scale_fixes(context, maker(context, "d"))

    assert refusal(context, fix) == "its scale is negative, infinite or NaN: calibrate again"


def test_illegal_scales_of_the_q_alone_are_refused_too():
    context = as_float("1, 0, 2, 0, 3, 0", given="-0.5, 0")
    (fix,) = zero_scale_fixes(context, maker(context, "d"))

    assert refusal(context, fix) == "its scale is negative, infinite or NaN: calibrate again"


ACTIVATION = """
agraph (float[1,4] x) => (float[1,4] y, float[1,4] y2)
<float s = {{0}}, float same = {{0}}, float other = {{0.5}}, uint8 z = {{3}}> {{
    q = QuantizeLinear (x, s, z)
    y = DequantizeLinear (q, {0}, z)
    y2 = DequantizeLinear (q, {1}, z)
}}
"""


@pytest.mark.parametrize("output", ["q", "y", "y2"])
@pytest.mark.parametrize("readers", [("s", "s"), ("s", "same")])
def test_all_that_share_the_codes_of_an_activation_get_the_scale_1(readers: tuple[str, str], output: str):
    context = read(ACTIVATION.format(*readers))
    fixes = zero_scale_fixes(context, maker(context, output))
    fixed = carried_out(context, fixes[0])

    assert descriptions(fixes) == ONE
    assert [constant(fixed, each, 1) for each in ("q", "y", "y2")] == [1, 1, 1]


@pytest.mark.parametrize("output", ["q", "y", "y2"])
def test_scales_of_an_activation_that_differ_are_left_alone(output: str):
    context = read(ACTIVATION.format("s", "other"))
    (fix,) = zero_scale_fixes(context, maker(context, output))

    assert refusal(context, fix) == "nodes that share the codes have different scales or zero points"


def test_a_q_without_data_has_the_fix_of_an_activation():
    proto = read(ACTIVATION.format("s", "s")).model.proto
    proto.graph.node[0].input[0] = "nowhere"
    context = read(proto)

    assert descriptions(zero_scale_fixes(context, maker(context, "q"))) == ONE


def test_a_q_of_codes_has_the_fix_of_an_activation():
    context = read(
        """
        agraph () => (int8[4] r) <float[4] w = {1,2,3,4}, float s = {0.5}, float none = {0}, int8 z = {0}> {
            q = QuantizeLinear (w, s, z)
            r = QuantizeLinear (q, none, z)
        }
        """
    )
    assert descriptions(zero_scale_fixes(context, maker(context, "r"))) == ONE


def test_a_computed_scale_is_refused():
    proto = as_float("1, 0, 2, 0, 3, 0", given="0.5, 0").model.proto
    (given,) = [each for each in proto.graph.initializer if each.name == "g"]
    proto.graph.initializer.remove(given)
    proto.graph.input.append(onnx.helper.make_tensor_value_info("g", T.FLOAT, [2]))
    context = read(proto)
    (fix,) = zero_scale_fixes(context, maker(context, "d"))

    assert refusal(context, fix) == "its scale or zero point is not constant, or its shape is illegal"
    assert node(proto, "q").input[1] == "g"
