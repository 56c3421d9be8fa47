"""A Clip of codes becomes a Clip in front of the Q or is stored; a superfluous Cast of codes is taken out."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.fixing import assert_same_bits, carried_out, constant, node, read, refusal

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.code_operators import cast_fixes, clip_fixes

PAIR = """
<ir_version: 10, opset_import: ["": 21]>
agraph (float[rows,4] x, int8 given) => (float[rows,4] y)
<{kind} z = {{{zero}}}, {kind} low = {{{low}}}, {kind} high = {{{high}}}> {{
    q = QuantizeLinear (x, s, z)
    c = Clip ({clip})
    y = DequantizeLinear (c, s, z)
}}"""


def pair(clip: str = "q, low, high", scale=0.1, kind: str = "int8", zero=0, low=-127, high=127) -> RuleContext:
    text = PAIR.format(clip=clip, kind=kind, zero=zero, low=low, high=high)
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(scale, np.float32), "s"))
    return read(model)


def fix_of(context: RuleContext, output: str = "c"):
    (clip,) = [each for each in context.nodes if each.key == (output,)]
    (fix,) = clip_fixes(context, clip)
    return fix


def around(codes: np.ndarray, scale: float) -> np.ndarray:
    """Values on codes, on both sides of every half, and far outside."""
    reals = (codes[:, None] + np.array([-0.5000001, -0.5, -0.4999999, 0, 0.4999999, 0.5, 0.5000001])) * scale
    return np.append(reals, [-np.inf, np.inf, -1e30, 1e30, 0]).astype(np.float32)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"low": -7, "high": 7},
        {"clip": "q, low"},
        {"clip": "q, , high", "high": 0},
        {"clip": "q"},
        {"kind": "uint8", "zero": 3, "low": 3, "high": 200},
        {"kind": "int8", "zero": -12, "low": -127, "high": 100},
        {"scale": 1e36},
        {"scale": 1e-42},
    ],
)
def test_every_value_gets_the_code_that_the_clip_made(given):
    context = pair(**given)
    fix = fix_of(context)
    fixed = carried_out(context, fix)

    assert fix.description == "clips the values in front of the Q instead of its codes"
    assert list(node(fixed, "y").input) == ["q", "s", "z"]
    with np.errstate(over="ignore"):
        values = around(np.arange(-300, 300), float(given.get("scale", 0.1)))
    assert_same_bits(context, fixed, x=np.resize(values, (len(values) // 4 + 1, 4)), given=np.zeros((), np.int8))


def test_the_bounds_are_those_of_the_codes_less_the_zero_point():
    fixed = carried_out(context := pair(kind="uint8", zero=3, low=1, high=200, scale=0.5), fix_of(context))
    clip = node(fixed, node(fixed, "q").input[0])

    assert clip.op_type == "Clip"
    assert clip.input[0] == "x"
    assert [float(constant(fixed, clip.output[0], index)) for index in (1, 2)] == [-1.0, 98.5]


def test_a_relu_is_written_where_the_lowest_code_stands_for_zero():
    fixed = carried_out(context := pair("q, low", kind="uint8", zero=3, low=3), fix_of(context))

    assert node(fixed, node(fixed, "q").input[0]).op_type == "Relu"


WEIGHT = """
<ir_version: 10, opset_import: ["": 21]>
agraph (float[1,2] x) => (float[1,3] y)
<int8[3] z = {0,0,0}, int8 low = {-7}, int8 high = {7}, float[3] s = {0.5, 1, 2}> {
    q = QuantizeLinear <axis = 1> (w, s, z)
    c = Clip (q, low, high)
    d = DequantizeLinear <axis = 1> (c, s, z)
    y = MatMul (x, d)
}"""


def weight(array: np.ndarray) -> RuleContext:
    model = onnx.parser.parse_model(WEIGHT)
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return read(model)


def test_the_clipped_codes_of_a_constant_are_stored():
    context = weight(np.float32([[0.75, 3.5, -30], [-80, 2.5, 15.2]]))
    fix = fix_of(context)
    fixed = carried_out(context, fix)

    assert fix.description == "stores the codes that the Clip makes"
    codes = constant(fixed, "d", 0)
    assert codes.dtype == np.int8
    # Halves go to the even code: 0.75 / 0.5 is 1.5, 3.5 and 2.5 are halves.
    assert codes.tolist() == [[2, 4, -7], [-7, 2, 7]]
    assert_same_bits(context, fixed, x=np.float32([[1, -3]]))


def test_nothing_is_offered_for_other_nodes():
    context = read("""
    agraph (float[4] x) => (float[4] y) <float s = {1}, int8 z = {0}, int8 low = {-127}> {
        c = Clip (x)
        q = QuantizeLinear (c, s, z)
        n = Identity (q)
        m = Clip (n, low)
        y = DequantizeLinear (m, s, z)
    }""")
    assert [clip_fixes(context, each) for each in context.nodes] == [()] * 5


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (("y = Deq", "t = Identity (q) y = Deq"), "another node reads the codes of the Q"),
        (("y = Deq", "t = Identity (c) y = Deq"), "a node other than a DQ reads the clipped codes"),
        (
            ("y = DequantizeLinear (c", "y = DequantizeLinear (q"),
            "the clipped codes are an output, or nothing reads them",
        ),
        (("(q, low, high)", "(q, given, high)"), "the bounds of the Clip are not constant"),
    ],
)
def test_codes_that_go_elsewhere_are_left(edit, reason):
    text = PAIR.format(clip="q, low, high", kind="int8", zero=0, low=-127, high=127).replace(*edit)
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "s"))
    context = read(model)

    assert refusal(context, fix_of(context)) == reason


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_a_scale_that_is_not_positive_is_left(scale):
    context = pair(scale=scale)
    assert (
        refusal(context, fix_of(context))
        == "its scale is not positive, or the lower bound of the Clip is above the upper one"
    )


def test_bounds_beyond_the_type_of_the_data_are_left():
    context = pair(scale=3e38)
    assert refusal(context, fix_of(context)) == "the bounds as real numbers are too large for the type of the data"


def test_crossed_bounds_and_several_scales_are_left():
    context = pair(low=5, high=-5)
    assert (
        refusal(context, fix_of(context))
        == "its scale is not positive, or the lower bound of the Clip is above the upper one"
    )
    context = read(WEIGHT.replace("(float[1,2] x)", "(float[1,2] x, float[2,3] w)"))
    assert refusal(context, fix_of(context)) == "the Q has several scales"


def test_a_constant_of_a_type_that_is_not_quantized_is_left():
    context = weight(np.zeros((2, 3), np.int64))
    assert "int64" in refusal(context, fix_of(context))


def test_data_of_integers_is_left():
    context = read("""
    agraph (int32[4] x) => (float[4] y) <float s = {0.5}, int8 z = {0}, int8 low = {-3}> {
        q = QuantizeLinear (x, s, z)
        c = Clip (q, low)
        y = DequantizeLinear (c, s, z)
    }""")
    assert refusal(context, fix_of(context)) == "the type of the data is unknown or not a float type"


def test_the_readers_may_stand_in_a_body():
    context = read("""
    agraph (float[4] x, bool b) => (float[4] y) <float s = {0.5}, int8 z = {0}, int8 low = {-3}, int8 high = {3}> {
        q = QuantizeLinear (x, s, z)
        c = Clip (q, low, high)
        y = If (b) <then_branch = t () => (u) {u = DequantizeLinear (c, s, z)},
                    else_branch = e () => (v) {v = DequantizeLinear (c, s, z)}>
    }""")
    fixed = carried_out(context, fix_of(context))
    for flag in (True, False):
        assert_same_bits(context, fixed, x=np.float32([-9, -0.7, 1.4, 8]), b=np.array(flag))


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
