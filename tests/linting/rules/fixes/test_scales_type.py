"""A scale in another float type: the same value in both halves of the pair, or a refusal."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.fixing import carried_out, constant, descriptions, maker, read, refusal

from qdqtool.linting.rules import RuleContext
from qdqtool.linting.rules.fixes.scales import scale_type_fixes

TYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def pair(*scales: float) -> RuleContext:
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
    assert scale_type_fixes(maker(pair(0.5), "q"), wanted) == ()


@pytest.mark.parametrize("wanted", TYPES)
@pytest.mark.parametrize("output", ["q", "y", "y2"])
def test_the_whole_pair_gets_the_rounded_value(output: str, wanted: str):
    context = pair(0.1, 0.3)
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
    context = pair(*scales)
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
    proto = pair(0.3).model.proto
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
