"""Scales at the ends of the range of their type: the last good one and the first bad one."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto as T
from support.corpus._case import graph_model, tensor
from support.corpus._case import node as made
from support.fixing import located, read

from qdqtool.linting.rules import RuleContext

CODE = "QP105"
SMALLEST = {T.FLOAT16: 2.0**-14, T.FLOAT: 2.0**-126, T.BFLOAT16: 2.0**-126, T.DOUBLE: 2.0**-1022}
"""The smallest normal numbers, of which each has a subnormal half."""
LARGEST = {T.FLOAT16: 65504.0, T.FLOAT: (2 - 2.0**-23) * 2.0**127, T.BFLOAT16: (2 - 2.0**-7) * 2.0**127}
HIGH = {T.INT2: 1, T.UINT2: 3, T.INT4: 7, T.INT8: 127, T.UINT8: 255, T.FLOAT8E4M3FN: 448}
WORDS = {T.FLOAT16: "float16", T.FLOAT: "float32", T.BFLOAT16: "bfloat16", T.DOUBLE: "float64"}


def weight(scales: object, scale_type: int, kind: int = T.INT8) -> RuleContext:
    """Stored codes with one scale, or one for each row."""
    shape = [np.size(scales), 2]
    nodes = [made("DequantizeLinear", ["w", "s"], "y", axis=0)]
    constants = [tensor("w", np.ones(shape), kind), tensor("s", np.asarray(scales, np.float64), scale_type)]
    return read(graph_model(nodes, [], [("y", scale_type, shape)], constants, 25, 11))


def said(context: RuleContext, target: str = "onnx") -> list[str]:
    return [finding.message.partition(" is ")[2] for finding, _ in located(CODE, context, target)]


@pytest.mark.parametrize("scale_type", SMALLEST)
def test_a_scale_below_the_normal_numbers_is_reported(scale_type: int):
    least = SMALLEST[scale_type]
    half, words = np.float64(least / 2), f"below the smallest normal number of {WORDS[scale_type]}"

    assert said(weight(least, scale_type)) == []
    assert said(weight([least, least], scale_type)) == []
    assert said(weight(half, scale_type)) == [f"{half:.6g}, {words}"]
    assert said(weight([least, half, 1], scale_type)) == [f"{half:.6g} in channel 1, {words}"]
    assert said(weight([half, half, 1], scale_type)) == [f"{half:.6g} in channel 0 (and 1 more), {words}"]


def test_what_a_tiny_scale_is_reported_with():
    ((finding, fault),) = located(CODE, weight([1, 2.0**-16, 2.0**-15], T.FLOAT16), "onnx")

    assert (finding.found, finding.expected) == ("1.52588e-05 in channel 1 (and 1 more)", "at least 6.1e-05")
    assert (finding.severity, finding.effect, fault.fixes) == ("warning", "silent", ())
    assert finding.extent is not None
    assert (finding.extent.kind, finding.extent.count, finding.extent.degree) == ("tiny", 2, pytest.approx(2))


@pytest.mark.parametrize("scales", [0.0, [0.0, 1.0], -1.0, float("nan"), [float("nan"), 1.0]], ids=str)
def test_what_another_rule_has_is_left_to_it(scales: object):
    assert said(weight(scales, T.FLOAT16)) == []


@pytest.mark.parametrize("kind", HIGH)
@pytest.mark.parametrize("scale_type", LARGEST)
def test_a_scale_whose_greatest_code_is_infinite_is_reported(scale_type: int, kind: int):
    dtype = {T.FLOAT16: np.float16, T.FLOAT: np.float32, T.BFLOAT16: ml_dtypes.bfloat16}[scale_type]
    limit = LARGEST[scale_type] / HIGH[kind]
    last = np.asarray(limit).astype(dtype)
    below = last if float(last) * HIGH[kind] <= LARGEST[scale_type] else np.nextafter(last, dtype(0))
    with np.errstate(over="ignore"):
        above = np.nextafter(below, dtype(np.inf))

    assert said(weight(float(below), scale_type, kind)) == []
    assert said(weight([float(below), 1], scale_type, kind)) == []
    if np.isfinite(above):
        words = f"{float(above):.6g}: code {HIGH[kind]} dequantizes to infinity in {WORDS[scale_type]}"
        assert said(weight(float(above), scale_type, kind)) == [words]
        assert len(said(weight([1, float(above)], scale_type, kind))) == 1


@pytest.mark.parametrize("scales", [float("inf"), [float("inf"), 65504.0], [65504.0, float("inf")]], ids=str)
def test_infinity_is_left_to_another_rule(scales: object):
    assert said(weight(scales, T.FLOAT16, T.INT2)) == []


def test_what_a_huge_scale_is_reported_with():
    ((finding, _),) = located(CODE, weight([1, 65504, 2064], T.FLOAT16), "onnx")

    assert (finding.found, finding.expected) == ("65504 in channel 1 (and 1 more)", "at most 516")
    assert finding.extent is not None
    assert (finding.extent.kind, finding.extent.count) == ("huge", 2)
    assert finding.extent.degree == pytest.approx(np.log2(127))


def pair(scale: object, *, opset: int, data_type: int = T.FLOAT16, scale_type: int = T.FLOAT) -> RuleContext:
    shape = [np.size(scale), 2]
    steps = {"QuantizeLinear": ("x", "q"), "DequantizeLinear": ("q", "y")}
    nodes = [made(op_type, [data, "s", "z"], output, axis=0) for op_type, (data, output) in steps.items()]
    constants = [tensor("s", scale, scale_type), tensor("z", np.zeros(np.shape(scale)), T.INT8)]
    return read(graph_model(nodes, [("x", data_type, shape)], [("y", scale_type, shape)], constants, opset, 10))


VANISHES = "which becomes 0 in float16"
TINY = "below the smallest normal number of float16"


@pytest.mark.parametrize(
    ("scale", "found"),
    [
        (2.0**-14, None),
        (2.0**-15, ("3.05176e-05", TINY, "warning")),
        (2.0**-24, ("5.96046e-08", TINY, "warning")),
        (2.0**-25, ("2.98023e-08", VANISHES, "error")),
        ([1.0, 2.0**-24], ("5.96046e-08 in channel 1", TINY, "warning")),
        ([2.0**-15, 2.0**-30], ("3.05176e-05 in channel 0 (and 1 more)", VANISHES, "error")),
        (1e30, None),
    ],
    ids=str,
)
def test_before_opset_19_tensorrt_casts_the_scale_of_a_q_of_float16_data(
    scale: object, found: tuple[str, str, str] | None
):
    context = pair(scale, opset=18)
    reported = [(finding.message, finding.severity, finding.op_type) for finding, _ in located(CODE, context)]

    if found is None:
        assert reported == []
    else:
        message = f"scale 's' of this Q is {found[0]}, {found[1]}"
        assert reported == [(message, found[2], "QuantizeLinear")]
    for target in ("onnx", "ort-cpu"):
        assert said(context, target) == []


@pytest.mark.parametrize(
    ("opset", "data", "count"),
    [(13, T.FLOAT16, 1), (18, T.FLOAT16, 1), (19, T.FLOAT16, 0), (21, T.FLOAT16, 0), (18, T.FLOAT, 0)],
)
def test_only_there_the_scale_is_cast(opset: int, data: int, count: int):
    assert len(said(pair(2.0**-20, opset=opset, data_type=data), "tensorrt")) == count


@pytest.mark.parametrize("first", [T.INT32, T.FLOAT8E8M0])
def test_scales_of_other_types_are_passed_over(first: int):
    nodes = [made("DequantizeLinear", ["w", "a"], "d"), made("DequantizeLinear", ["w", "b"], "y")]
    constants = [tensor("w", np.ones(2), T.INT8), tensor("a", 1, first), tensor("b", 2.0**-20, T.FLOAT16)]
    context = read(graph_model(nodes, [], [("y", T.FLOAT16, [2])], constants, 24, 11))

    assert [finding.tensor for finding, _ in located(CODE, context)] == ["b"]


def test_the_scale_of_a_dq_is_not_cast():
    nodes = [made("DequantizeLinear", ["x", "s"], "y")]
    model = graph_model(nodes, [("x", T.FLOAT16, [2])], [("y", T.FLOAT, [2])], [tensor("s", 2.0**-20)], 18, 8)

    assert said(read(model), "tensorrt") == []
