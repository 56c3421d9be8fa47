"""Computed, negative, zero and one-element scales, and scales of another type: what is fixed, and what is refused."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx.reference import ReferenceEvaluator
from support.fixing import assert_same_bits, attributes, carried_out, constant, descriptions, maker, node, read, refusal
from support.ort_verdict import ort_run

from qdqtool.jobs.fix import FixRequest, fix_model
from qdqtool.linting.policy import Policy
from qdqtool.linting.repair.report import Repaired
from qdqtool.linting.rules import Fix, RuleContext
from qdqtool.linting.rules.fixes.scales import folded_fixes, scalar_fixes, scale_type_fixes, zero_scale_fixes
from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model

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


MODEL = """
<ir_version: 10, opset_import: ["": 21]>
agraph (float[1,2] x) => (float[1,2] y) <%s[2,2] w = {%s}, float%s ws = {%s}, %s%s wz = {%s}> {
    wd = DequantizeLinear <axis = %d> (w, ws, wz)
    y = MatMul (x, wd)
}
"""


def model(codes: str, scales: str, zeros: str, *, shape: str = "[2]", axis: int = 1, kind: str = "int8") -> Model:
    words = (kind, codes, shape, scales, kind, shape, zeros, axis)
    return Model(onnx.parser.parse_model(MODEL % words))


def fixed(given: Model, *, unsafe: bool) -> tuple[onnx.ModelProto, Repaired]:
    policy = Policy(targets=("tensorrt-rtx",), select=("QP101",))
    done = fix_model(given, FixRequest(policy=policy, unsafe=unsafe))
    proto = inlined(done.model)
    assert proto is not None
    return proto, done.report


def product(proto: onnx.ModelProto) -> np.ndarray:
    return ReferenceEvaluator(proto).run(None, {"x": np.array([[0.5, -3.0]], np.float32)})[0]


def scales(proto: onnx.ModelProto) -> np.ndarray:
    dequantize = next(node for node in proto.graph.node if node.op_type == "DequantizeLinear")
    found = {tensor.name: tensor for tensor in proto.graph.initializer}
    return onnx.numpy_helper.to_array(found[dequantize.input[1]])


@pytest.mark.parametrize("axis", [0, 1])
def test_codes_and_scales_are_negated(axis: int):
    given = model("1, -2, 127, 4", "0.5, -0.25", "0, 0", axis=axis)
    proto, report = fixed(given, unsafe=False)

    assert [change.label for change in report.changes] == ["safe"]
    assert np.all(scales(proto) == [0.5, 0.25])
    np.testing.assert_array_equal(product(proto), product(given.proto))


def test_the_lowest_code_loses_one_step_and_only_where_that_is_allowed():
    given = model("1, -128, -128, 4", "0.5, -0.25", "0, 0")
    _, report = fixed(given, unsafe=False)
    assert not report.changes
    assert "-128" in report.refused[0].reason or report.refused[0].label == "unsafe"

    proto, report = fixed(given, unsafe=True)
    assert [change.label for change in report.changes] == ["unsafe"]
    # Of the second column, 32 becomes 31.75; the first has a positive scale and keeps its -128.
    expected = np.array([[0.5, -3.0]], np.float32) @ np.array([[0.5, 31.75], [-64, -1]], np.float32)
    np.testing.assert_array_equal(product(proto), expected)


@pytest.mark.parametrize(
    ("codes", "values", "zeros", "kind"),
    [
        ("1, 2, 3, 4", "0.5, -0.25", "0, 1", "int8"),
        ("1, 2, 3, 4", "0.5, -0.25", "0, 0", "uint8"),
        ("1, 2, 3, 4", "0, -0.25", "0, 0", "int8"),
        ("1, 2, 3, 4", "inf, -0.25", "0, 0", "int8"),
    ],
)
def test_what_cannot_be_negated_stays(codes: str, values: str, zeros: str, kind: str):
    _, report = fixed(model(codes, values, zeros, kind=kind), unsafe=True)
    assert not report.changes


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


TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def pair_of(*scales: float) -> RuleContext:
    shape = f"[{len(scales)}]" if len(scales) > 1 else ""
    values = ", ".join(map(repr, scales))
    return read(
        f"""
        agraph (float[4,{len(scales)}] x) => (float[4,{len(scales)}] y, float[4,{len(scales)}] y2)
        <float{shape} s = {{{values}}}, float{shape} own = {{{values}}}> {{
            q = QuantizeLinear <output_dtype = 3> (x, s)
            y = DequantizeLinear (q, own)
            y2 = DequantizeLinear (q, s)
        }}
        """
    )


@pytest.mark.parametrize("wanted", [None, "float64", "int8", "", "float8e8m0"])
def test_there_is_no_fix_to_what_is_no_type_of_a_scale(wanted: str | None):
    assert scale_type_fixes(maker(pair_of(0.5), "q"), wanted) == ()


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("output", ["q", "y", "y2"])
def test_the_whole_pair_gets_the_rounded_value(output: str, wanted: str):
    context = pair_of(0.1, 0.3)
    fixes = scale_type_fixes(maker(context, output), wanted)
    fixed = carried_out(context, fixes[0])

    assert descriptions(fixes) == [f"stores the scale as {wanted}"]
    rounded = np.float32([0.1, 0.3]).astype(TYPES[wanted])
    for other in ("q", "y", "y2"):
        stored = constant(fixed, other, 1)
        assert stored.dtype == (TYPES[wanted] if other == output else np.float32)
        assert stored.astype(np.float64).tolist() == rounded.astype(np.float64).tolist()


@pytest.mark.parametrize(
    ("scales", "fits"),
    [
        ((0.5,), True),
        ((0.0,), True),  # another rule has zeros
        ((0.0, 0.5), True),
        ((-0.5,), True),
        ((6e-8,), True),  # the smallest float16 is 5.96e-8
        ((2e-8,), False),
        ((0.5, 2e-8), False),
        ((65504.0,), True),
        ((1e6,), False),
        ((0.5, 1e6), False),
        ((0.7, 2.0), True),
    ],
)
def test_a_scale_that_float16_has_not_is_refused(scales: tuple[float, ...], *, fits: bool):
    context = pair_of(*scales)
    (fix,) = scale_type_fixes(maker(context, "q"), "float16")
    if fits:
        assert (
            constant(carried_out(context, fix), "q", 1).tolist()
            == np.float16(scales if len(scales) > 1 else scales[0]).tolist()
        )
    else:
        assert refusal(context, fix) == "its scale is too small or too large for float16"


def test_a_scale_that_is_computed_is_refused():
    context = read(
        """
        agraph (float[4] x, float s) => (float[4] y) {
            q = QuantizeLinear (x, s)
            y = DequantizeLinear (q, s)
        }
        """
    )
    (fix,) = scale_type_fixes(maker(context, "q"), "float16")

    assert refusal(context, fix) == "its scale is not constant"


@pytest.mark.parametrize(("other", "left"), [(T.DOUBLE, True), (T.INT32, True), (T.FLOAT16, False), (None, True)])
def test_the_other_half_is_left_alone_where_its_scale_is_no_float(other: int | None, *, left: bool):
    proto = pair_of(0.3).model.proto
    if other is None:
        proto.graph.node[1].input[1] = "nowhere"
    else:
        (own,) = [each for each in proto.graph.initializer if each.name == "own"]
        own.CopyFrom(onnx.helper.make_tensor("own", other, [], [1]))
    context = read(proto)
    (fix,) = scale_type_fixes(maker(context, "q"), "float16")
    fixed = carried_out(context, fix)

    assert (fixed.graph.node[1].input[1] == proto.graph.node[1].input[1]) is left
    if not left:
        assert constant(fixed, "y", 1) == np.float16(0.3)


def test_the_scale_of_a_dq_of_stored_codes_changes_alone():
    context = read("agraph () => (float[4] y) <int8[4] w = {1,2,3,4}, float s = {0.3}> { y = DequantizeLinear (w, s) }")
    (fix,) = scale_type_fixes(maker(context, "y"), "bfloat16")

    assert constant(carried_out(context, fix), "y", 1).dtype == ml_dtypes.bfloat16


SMALL = np.float32([[1, -2, 3]])
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
    assert_same_bits(context, fixed, x=SMALL)


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
    assert np.isfinite(ort_run(fixed, SMALL)).all()


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
