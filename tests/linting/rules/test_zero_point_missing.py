"""A Q without a type gets uint8, as ONNX means it, or the type that its DQ has."""

import numpy as np
import pytest
from support.fixing import assert_same_bits, carried_out, constant, descriptions, located, node, read, refusal

from qdqtool.linting.rules import Fix, RuleContext

CODE = "QS001"


def model(readers: str, *, scale: str = "float s = {0.5}", inputs: str = "", attribute: str = "") -> RuleContext:
    given = f"{scale}, " if scale else ""
    return read(
        f"""
        agraph (float[2,2] x{inputs}) => (float[2,2] y)
        <{given}int8 z = {{0}}, uint8 u = {{0}}, float8e4m3fn f = {{0}}> {{
            q = QuantizeLinear {attribute} (x, s)
            {readers}
        }}
        """
    )


def fixes(context: RuleContext) -> tuple[Fix, ...]:
    ((finding, fault),) = located(CODE, context)
    assert (finding.found, finding.expected) == ("absent", "a zero point or output_dtype")
    assert (
        finding.message == "this Q has no zero point and no output_dtype: ONNX makes uint8 codes, TensorRT int8 codes"
    )
    return fault.fixes


UINT8 = "writes the zero point 0 of type uint8"


@pytest.mark.parametrize(
    ("readers", "expected"),
    [
        ("y = DequantizeLinear (q, s)", UINT8),
        ("y = DequantizeLinear (q, s, u)", UINT8),
        ("y = Identity (q)", UINT8),
        ("y = DequantizeLinear (q, s, z)", "reads the zero point 'z' of its DQ"),
        ("y = DequantizeLinear (q, s, f)", "reads the zero point 'f' of its DQ"),
        ("y2 = DequantizeLinear (q, s)  y = DequantizeLinear (q, s, z)", "reads the zero point 'z' of its DQ"),
        ("y2 = DequantizeLinear (q, s, u)  y = DequantizeLinear (q, s, z)", UINT8),
    ],
)
def test_what_is_offered(readers: str, expected: str):
    assert descriptions(fixes(model(readers))) == [expected]


@pytest.mark.parametrize("attribute", ["", "<output_dtype = 0>"])
def test_a_q_without_a_type_is_reported(attribute: str):
    assert len(located(CODE, model("y = DequantizeLinear (q, s)", attribute=attribute))) == 1


def test_a_q_with_a_type_is_not():
    assert not located(CODE, model("y = DequantizeLinear (q, s)", attribute="<output_dtype = 3>"))


@pytest.mark.parametrize("shape", ["", "[2]", "[2,2]", "[1]"])
def test_the_written_zero_point_has_the_shape_of_the_scale_and_changes_nothing(shape: str):
    count = {"": 1, "[2]": 2, "[2,2]": 4, "[1]": 1}[shape]
    attribute = "<axis = 0, block_size = 1>" if count == 4 else "<axis = 0>"
    context = read(
        f"""
        agraph (float[2,2] x) => (float[2,2] y) <float{shape} s = {{{", ".join(["0.5"] * count)}}}> {{
            q = QuantizeLinear {attribute} (x, s)
            y = DequantizeLinear {attribute} (q, s)
        }}
        """
    )
    (fix,) = fixes(context)
    fixed = carried_out(context, fix)

    zero = constant(fixed, "q", 2)
    assert (zero.dtype, zero.shape, zero.any()) == (np.uint8, constant(fixed, "q", 1).shape, False)
    assert node(fixed, "q").input[2] == "s_zero_point"
    assert_same_bits(context, fixed, x=np.float32([[1, -2], [3, 400]]))
    assert not located(CODE, read(fixed))


def test_the_zero_point_of_the_dq_is_read():
    context = model("y = DequantizeLinear (q, s, z)")
    (fix,) = fixes(context)

    assert list(node(carried_out(context, fix), "q").input) == ["x", "s", "z"]


@pytest.mark.parametrize("inputs", [", float[N] s", ", float[2,N] s"])
def test_without_the_shape_of_the_scale_no_zero_point_is_written(inputs: str):
    context = model("y = DequantizeLinear (q, s)", scale="", inputs=inputs)
    (fix,) = fixes(context)

    assert refusal(context, fix) == "the shape of the scale is unknown"


def test_without_a_scale_no_zero_point_is_written():
    context = model("y = DequantizeLinear (q, s)", scale="")
    (fix,) = fixes(context)

    assert refusal(context, fix) == "the shape of the scale is unknown"


@pytest.mark.parametrize("name", ["own", "u"])
def test_a_zero_point_of_a_body_cannot_be_read_outside(name: str):
    context = read(
        f"""
        agraph (float[2,2] x, bool b) => (float[2,2] y) <float s = {{0.5}}, uint8 u = {{0}}> {{
            q = QuantizeLinear (x, s)
            y = If (b) <
                then_branch = g1 () => (float[2,2] t) <int8 {name} = {{0}}> {{ t = DequantizeLinear (q, s, {name}) }},
                else_branch = g2 () => (float[2,2] e) {{ e = Identity (x) }}>
        }}
        """
    )
    (fix,) = fixes(context)

    assert fix.description == f"reads the zero point '{name}' of its DQ"
    assert refusal(context, fix) == f"the zero point '{name}' belongs to another graph"
