"""Zero points whose type or shape does not fit, and what can be stored instead."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from support.corpus._case import tensor
from support.fixing import carried_out, constant, descriptions, located, read, refusal
from support.ort_verdict import ort_run

from qdqtool.linting.rules import Fix, RuleContext

CODE = "QS003"


def pair(zero: str, scale: str = "float s = {0.5}", *, attribute: str = "", inputs: str = "") -> RuleContext:
    return read(
        f"""
        agraph (float[2,4] x{inputs}) => (float[2,4] y) <{", ".join(filter(None, (scale, zero)))}> {{
            q = QuantizeLinear {attribute} (x, s, z)
            y = DequantizeLinear (q, s)
        }}
        """
    )


def weight(kind: str, zero: str, scale: str = "float s = {0.5}") -> RuleContext:
    constants = f"{kind}[2,2] w = {{1,2,3,4}}, {scale}, {zero}"
    return read(f"agraph () => (float[2,2] y) <{constants}> {{ y = DequantizeLinear (w, s, z) }}")


def reported(context: RuleContext, target: str) -> list[tuple[str, str, str, str]]:
    return [
        (found.message, str(found.found), str(found.expected), found.effect)
        for found, _ in located(CODE, context, target)
    ]


def fixes(context: RuleContext, target: str = "onnx") -> tuple[Fix, ...]:
    ((_, fault),) = located(CODE, context, target)
    return fault.fixes


@pytest.mark.parametrize(
    ("zero", "attribute", "found", "expected"),
    [
        ("int8 z = {0}", "", None, None),
        ("int8 z = {0}", "<output_dtype = 3>", None, None),
        ("float8e4m3fn z = {0}", "<output_dtype = 17>", None, None),
        ("int8 z = {0}", "<output_dtype = 2>", "int8", "uint8"),
        ("uint8 z = {0}", "<output_dtype = 3>", "uint8", "int8"),
        ("int32 z = {0}", "", "int32", "a quantized type"),
        ("float z = {0}", "<output_dtype = 3>", "float32", "a quantized type"),
    ],
)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt"])
def test_types_of_a_q(target: str, zero: str, attribute: str, found: str | None, expected: str):
    effect = "silent" if target == "tensorrt" and expected == "a quantized type" else "refused"
    message = f"zero point 'z' of this Q has type {found}"
    assert reported(pair(zero, attribute=attribute), target) == ([(message, found, expected, effect)] if found else [])


@pytest.mark.parametrize(
    ("kind", "zero", "found"),
    [("int8", "int8", None), ("int8", "uint8", "uint8"), ("int32", "int8", "int8"), ("uint4", "int4", "int4")],
)
@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt"])
def test_types_of_a_dq(target: str, kind: str, zero: str, found: str | None):
    effect = "silent" if target == "tensorrt" else "refused"
    message = f"zero point 'z' of this DQ has type {found}"
    expected = [(message, found, kind, effect)] if found else []
    assert reported(weight(kind, f"{zero} z = {{0}}"), target) == expected


def test_an_unknown_type_or_shape_is_no_fault():
    """Nothing is known of what a foreign operator makes."""
    context = read(
        """
        agraph (float[2,4] x, float[N] n) => (float[2,4] y, float[2,4] y2)
        <float[4] s = {1,2,3,4}, int8[4] z = {0,0,0,0}> {
            u = local.Unknown (n)
            q = QuantizeLinear (x, s, u)
            y = DequantizeLinear (q, s)
            q2 = QuantizeLinear (x, u, z)
            y2 = DequantizeLinear (q2, u, z)
        }
        """
    )
    assert reported(context, "onnx") == []


@pytest.mark.parametrize(
    ("zero", "scale", "faulty"),
    [
        ([], [], set()),
        ([4], [4], set()),
        ([1], [], set()),
        ([], [1], set()),
        ([1, 1], [1], {"onnx", "ort-cpu"}),
        ([1, 1], [], {"onnx", "ort-cpu"}),
        ([], [1, 1], {"onnx", "ort-cpu"}),
        ([1, 4], [4], {"onnx", "ort-cpu"}),
        ([2, 2], [4], {"onnx", "ort-cpu"}),
        ([], [4], {"onnx", "ort-cpu", "tensorrt"}),
        ([4], [], {"onnx", "ort-cpu", "tensorrt"}),
        ([2], [4], {"onnx", "ort-cpu", "tensorrt"}),
        ([4], ["N"], set()),
        (["N"], [4], set()),
        (["N"], [], set()),
        ([], ["N"], set()),
        (["N", 4], [4], set()),
    ],
)
def test_shapes(zero: list[int | str], scale: list[int | str], faulty: set[str]):
    proto = pair("int8 z = {0}").model.proto
    del proto.graph.initializer[:]
    for name, onnx_type, shape in (("s", T.FLOAT, scale), ("z", T.INT8, zero)):
        proto.graph.input.append(onnx.helper.make_tensor_value_info(name, onnx_type, shape))
    context = read(proto)
    words = ["[" + ", ".join(map(str, shape)) + "]" for shape in (zero, scale)]
    said = (f"zero point 'z' of this Q has shape {words[0]}", words[0], f"the scale's shape {words[1]}", "refused")

    for target in ("onnx", "ort-cpu", "tensorrt"):
        assert reported(context, target) == ([said] if target in faulty else []), target


@pytest.mark.parametrize("zeros", [[3], [3, 3], [[3]]], ids=str)
@pytest.mark.parametrize("kind", [T.INT8, T.UINT8])
def test_a_zero_point_that_is_the_same_everywhere_is_repeated(kind: int, zeros: list[int]):
    proto = pair("int8 z = {3}", "float[4] s = {1,2,3,4}").model.proto
    (zero,) = [each for each in proto.graph.initializer if each.name == "z"]
    zero.CopyFrom(tensor("z", zeros, kind))
    context = read(proto)
    (fix,) = fixes(context)
    fixed = carried_out(context, fix)

    assert fix.description == "repeats the zero point to [4]"
    assert constant(fixed, "q", 2).tolist() == [3, 3, 3, 3]
    assert constant(fixed, "q", 2).dtype == onnx.helper.tensor_dtype_to_np_dtype(kind)
    assert not located(CODE, read(fixed), "onnx")


@pytest.mark.parametrize(("zero", "inputs"), [("int8[2] z = {3, 4}", ""), ("int8[0] z = {}", ""), ("", ", int8[2] z")])
def test_zero_points_that_differ_are_not_repeated(zero: str, inputs: str):
    context = pair(zero, "float[4] s = {1,2,3,4}", inputs=inputs)
    (fix,) = fixes(context)

    assert refusal(context, fix) == "the zero points differ, or are not constant"


@pytest.mark.parametrize(
    ("zero", "attribute", "goal"),
    [
        ("int32 z = {0}", "", "int8"),
        ("int32 z = {0}", "<output_dtype = 2>", "uint8"),
        ("int32 z = {0}", "<output_dtype = 6>", "int8"),  # ONNX cannot quantize to int32
        ("float z = {0}", "<output_dtype = 17>", "float8e4m3fn"),
        ("uint8 z = {0}", "<output_dtype = 3>", "int8"),
    ],
)
def test_a_zero_point_of_a_q_is_cast_to_what_the_q_states(zero: str, attribute: str, goal: str):
    assert descriptions(fixes(pair(zero, attribute=attribute))) == [f"stores the zero point as {goal}"]


@pytest.mark.parametrize(("kind", "offered"), [("int8", True), ("uint4", True), ("int32", False)])
def test_a_zero_point_of_a_dq_is_cast_to_the_type_of_the_codes(kind: str, *, offered: bool):
    zero = "int16 z = {0}"
    assert descriptions(fixes(weight(kind, zero))) == [f"stores the zero point as {kind}"] * offered


@pytest.mark.parametrize(
    ("zeros", "source", "goal", "fits"),
    [
        ([0], T.INT32, T.INT8, True),
        ([127], T.INT32, T.INT8, True),
        ([-128], T.INT32, T.INT8, True),
        ([128], T.INT32, T.INT8, False),
        ([-129], T.INT32, T.INT8, False),
        ([5, 1000], T.INT32, T.INT8, False),
        ([1000, 5], T.INT32, T.INT8, False),
        ([5, -7], T.INT32, T.INT8, True),
        ([255], T.INT32, T.UINT8, True),
        ([-1], T.INT8, T.UINT8, False),
        ([3.0], T.FLOAT, T.INT8, True),
        ([0.5], T.FLOAT, T.INT8, False),
        ([0.5, 3.0], T.FLOAT, T.INT8, False),
        ([0], T.INT8, T.FLOAT8E4M3FN, False),
    ],
    ids=str,
)
def test_a_zero_point_is_cast_where_the_type_has_it(zeros: list[float], source: int, goal: int, *, fits: bool):
    proto = pair("int8 z = {0}", f"float[{len(zeros)}] s = {{{', '.join('1' for _ in zeros)}}}").model.proto
    (zero,) = [each for each in proto.graph.initializer if each.name == "z"]
    zero.CopyFrom(tensor("z", zeros, source))
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("output_dtype", goal))
    context = read(proto)
    (fix,) = fixes(context)
    if not fits:
        assert refusal(context, fix) == "the zero point is not constant, or not a value of that type"
        return
    stored = constant(carried_out(context, fix), "q", 2)
    assert stored.tolist() == zeros
    assert stored.dtype == onnx.helper.tensor_dtype_to_np_dtype(goal)


def test_a_zero_point_that_a_caller_gives_is_not_cast():
    context = pair("", inputs=", int32 z")
    (fix,) = fixes(context)

    assert refusal(context, fix) == "the zero point is not constant, or not a value of that type"


def test_a_repeated_zero_point_means_the_same():
    """ONNX Runtime refuses the model as it is."""
    context = read(
        """
        agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float[1] s = {0.5}, int8[1,1] z = {3}> {
            d = DequantizeLinear (w, s, z)
            y = MatMul (x, d)
        }
        """
    )
    ((_, fault),) = located(CODE, context, "onnx")
    fixed = carried_out(context, fault.fixes[0])

    assert constant(fixed, "d", 2).tolist() == [3]
    assert ort_run(fixed, np.float32([[1, 2]])).tolist() == [[-1, 0.5]]
