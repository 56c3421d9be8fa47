"""QL305: a pair between a product and its activation, and when the fix can move it."""

import numpy as np
import onnx
import pytest
from support.fixing import carried_out, located, read
from support.one_rule import findings, fixed, messages, parsed, unfit
from support.ort_verdict import ort_outputs


def layers(body: str) -> str:
    return f"""agraph (float[2,2] x, bool b) => (float[2,2] y)
    <float[2,2] w = {{1,2,3,4}}, float s = {{1}}, int8 z = {{0}}> {{
        {body}
    }}"""


PRODUCT = "c = MatMul (x, w) q = QuantizeLinear (c, s, z) "
PAIR = PRODUCT + "d = DequantizeLinear (q, s, z) "


@pytest.mark.parametrize(
    ("body", "operator"),
    [
        (PAIR + "y = Relu (d)", "Relu"),
        (PAIR + "y = LeakyRelu (d)", "LeakyRelu"),
        (PAIR + "y = Clip (d, s)", "Clip"),
        (PAIR + "y = Clip (x, d)", None),
        (PAIR + "y = Sigmoid (d)", None),
        (PAIR + "y = Relu (d) u = Neg (d)", None),
        (PAIR + "y = Relu (d) u = Neg (c)", None),
        (PAIR, None),
        (PAIR.replace("MatMul", "Add") + "y = Relu (d)", None),
        ("q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) y = Relu (d)", None),
    ],
)
def test_where_the_pair_is_reported(body: str, operator: str | None):
    found = findings("QL305", layers(body))

    assert [each.message for each in found] == ([f"this pair is between MatMul and {operator}"] if operator else [])
    assert [each.fixable for each in found] == [operator == "Relu"] * bool(operator)


def test_the_pair_goes_behind_the_relu():
    model = fixed("QL305", layers(PAIR + "r = Relu (d) y = Neg (r)"))

    by_operator = {each.op_type: each for each in model.graph.node}
    (relu, quantize, dequantize, last) = (
        by_operator[name] for name in ("Relu", "QuantizeLinear", "DequantizeLinear", "Neg")
    )
    assert list(relu.input) == ["c"]
    assert quantize.input[0] == relu.output[0]
    assert dequantize.input[0] == quantize.output[0]
    assert list(last.input) == list(dequantize.output)
    onnx.checker.check_model(model, full_check=True)
    assert messages("QL305", model) == []


@pytest.mark.parametrize(("zero", "label"), [("int8 z = {0}", "safe"), ("float8e4m3fn z = {0}", "unsafe")])
def test_a_format_with_two_zeros_is_not_moved_as_safe(zero: str, label: str):
    """Small negative numbers round to -0 in such a format, which Relu keeps; behind the Relu they are 0."""
    context = read(layers(PAIR + "r = Relu (d) y = Identity (r)").replace("int8 z = {0}", zero))
    ((_, fault),) = located("QL305", context, "tensorrt")
    (fix,) = fault.fixes
    assert fix.offer.label == label

    feeds = {"x": np.float32([[-1e-4, 0], [2, 3]]), "b": np.array(True)}
    before, behind = (ort_outputs(model, feeds)["y"] for model in (context.model.proto, carried_out(context, fix)))
    np.testing.assert_array_equal(behind, before)
    assert np.array_equal(np.signbit(behind), np.signbit(before)) == (label == "safe")


def test_codes_with_other_readers_stay():
    body = PAIR + "r = Relu (d) y = Neg (r) u = Transpose (q)"

    assert unfit("QL305", layers(body)) == "another node reads the codes"


@pytest.mark.parametrize(
    ("outside", "inside"),
    [(PAIR, "r = Relu (d) u = Neg (r)"), (PRODUCT, "d = DequantizeLinear (q, s, z) r = Relu (d) u = Neg (r)")],
)
def test_a_pair_outside_of_the_graph_of_the_relu_stays(outside: str, inside: str):
    model = parsed(
        layers(
            f"{outside} y = If (b) <then_branch = g () => (u) {{ {inside} }},"
            " else_branch = h () => (v) { v = Identity (x) }>"
        )
    )

    assert messages("QL305", model) == ["this pair is between MatMul and Relu"]
    assert unfit("QL305", model) == "the pair and the Relu are in different graphs"
