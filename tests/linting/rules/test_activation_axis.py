"""QA202: which Q and DQ give an activation several scales, and when one scale can replace them."""

import numpy as np
import onnx
import pytest
from support.one_rule import findings, fixed, nodes, unfit


def activation(body: str, zeros: str = "0, 0", kind: str = "int8") -> str:
    return f"""agraph (float[2,2] x, int8[2,2] codes, float[M] t) => (float[2,2] y)
    <float[2,2] f = {{1,2,3,4}}, int8[2,2] k = {{1,2,3,4}}, float s = {{1}}, float[1] one = {{1}},
     float[2] two = {{0.5, 2}}, {kind}[2] z = {{{zeros}}}> {{
        {body}
    }}"""


PAIR = "[q] c = QuantizeLinear <axis = 0> (x, two, z) [d] y = DequantizeLinear <axis = 0> (c, two, z)"


@pytest.mark.parametrize(
    ("body", "reported"),
    [
        (PAIR, ["q"]),
        ("[q] c = QuantizeLinear (x, s)", []),
        ("[q] c = QuantizeLinear (x, one)", []),
        ("[q] c = QuantizeLinear (x, t)", []),
        ("[q] c = QuantizeLinear (f, two, z) [d] y = DequantizeLinear (c, two, z)", []),
        ("[d] y = DequantizeLinear (k, two, z)", []),
        ("[d] y = DequantizeLinear (codes, two, z)", ["d"]),
        ("[q] c = QuantizeLinear (, two, z)", []),
        ("c = QuantizeLinear (f, two, z) n = Clip (c) [d] y = DequantizeLinear (n, two, z)", []),
        ("[q] c = QuantizeLinear (x, two, z) n = Clip (c) [d] y = DequantizeLinear (n, two, z)", ["q", "d"]),
        ("n = Clip (codes) [d] y = DequantizeLinear (n, two, z)", ["d"]),
    ],
)
def test_where_it_is_reported(body: str, reported: list[str]):
    assert nodes("QA202", activation(body)) == reported


def test_a_matrix_product_runs_in_float_with_scales_along_its_sum():
    behind = " m = DequantizeLinear (k, s) o = MatMul (y, m)"
    for axis, severity in ((0, "warning"), (1, "error")):
        body = PAIR.replace("axis = 0", f"axis = {axis}") + behind
        (found,) = findings("QA202", activation(body))
        assert found.severity == severity
        assert found.message == f"this Q of an activation has several scales: per-axis {axis}"
        assert (found.tensor, found.found, found.expected) == ("x", "scale of shape [2]", "one scale")


@pytest.mark.parametrize("zero_point", [True, False])
def test_the_fix_gives_the_largest_scale(zero_point: bool):
    body = PAIR + " u = Neg (y)" if zero_point else PAIR.replace(", z)", ")") + " u = Neg (y)"
    model = fixed("QA202", activation(body))

    stored = {each.name: onnx.numpy_helper.to_array(each) for each in model.graph.initializer}
    scales = {stored[each.input[1]].item() for each in model.graph.node if len(each.input) > 1}
    assert scales == {np.float32(2).item()}
    assert findings("QA202", model) == []


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (activation(PAIR, "0, 3"), "it has zero points"),
        (activation(PAIR, "3, 3"), "it has zero points"),
        (activation(PAIR, kind="int64"), "stored codes have the same scales"),
        (
            activation(
                "c = QuantizeLinear <axis = 0> (x, two, z) j = Concat <axis = 1> (c, k)"
                " y = DequantizeLinear <axis = 0> (j, two, z)"
            ),
            "stored codes have the same scales",
        ),
    ],
)
def test_what_one_scale_cannot_serve_is_left_with_the_reason(model: str, reason: str):
    assert unfit("QA202", model) == reason
