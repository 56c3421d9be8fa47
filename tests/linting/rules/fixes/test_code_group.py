"""Which nodes and tensors share codes, and where codes cannot be changed."""

import onnx
import pytest
from support.fixing import maker, read

from qdqtool.linting.rules import RuleContext, UnfitError
from qdqtool.linting.rules.fixes.code_group import CodeGroup

MOVED = """
agraph (float[2,2] x, float[2,2] x2) => (float[2,2] y, float[2,4] y2)
<float s = {0.5}, int8 z = {0}, int8[2,2] w = {1,2,3,4}> {
    q = QuantizeLinear (x, s, z)
    t = Transpose <perm = [1,0]> (q)
    y = DequantizeLinear (t, s, z)
    q2 = QuantizeLinear (x2, s, z)
    j = Concat <axis = 1> (t, w)
    y2 = DequantizeLinear (j, s, z)
    y3 = DequantizeLinear (q2, s, z)
}
"""


def of(context: RuleContext, output: str) -> CodeGroup:
    return CodeGroup.of(context, maker(context, output))


@pytest.mark.parametrize("output", ["q", "y", "y2"])
def test_codes_are_followed_in_both_directions(output: str):
    group = of(read(MOVED), output)

    assert {entry.node.key[0] for entry in group.entries} == {"q", "y", "y2"}
    assert {value.name for value in group.tensors} == {"q", "t", "j"}
    assert {value.name for value in group.constants} == {"w"}
    assert group.shared().scale == 0.5


def test_other_codes_with_the_same_scale_are_not_in_the_group():
    group = of(read(MOVED), "y3")

    assert {entry.node.key[0] for entry in group.entries} == {"q2", "y3"}


HEAD = """
agraph (float[4] x, int8[4] c) => (float[4] y{outputs})
<float s = {{0.5}}, int8 z = {{0}}, int8[4] w = {{1,2,3,4}}>
"""


@pytest.mark.parametrize(
    ("outputs", "nodes", "start", "reason"),
    [
        (
            "",
            "y = DequantizeLinear (c, s, z)",
            "y",
            "the codes 'c' are an input or output of the graph; a fix must not change their meaning",
        ),
        (
            ", int8[4] q",
            "q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)",
            "y",
            "the codes 'q' are an input or output of the graph; a fix must not change their meaning",
        ),
        (
            "",
            "q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)  r = QuantizeLinear (q, s, z)",
            "y",
            "QuantizeLinear 'QuantizeLinear -> r' computes with the codes",
        ),
        (
            "",
            "d = DequantizeLinear (w, s, z)  y = DequantizeLinear (d, s, z)",
            "y",
            "DequantizeLinear 'DequantizeLinear -> d' computes with the codes",
        ),
        (
            "",
            "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)  y = DequantizeLinear (w, s, q)",
            "d",
            "DequantizeLinear 'DequantizeLinear -> y' reads the codes 'q'",
        ),
        (
            "",
            "q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)  r = Add (q, q)",
            "y",
            "Add 'Add -> r' computes with the codes",
        ),
        (
            "",
            "q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z)  r = Gather (w, q)",
            "y",
            "Gather 'Gather -> r' reads the codes 'q'",
        ),
    ],
)
def test_codes_that_others_see_cannot_be_changed(outputs: str, nodes: str, start: str, reason: str):
    context = read(f"{HEAD.format(outputs=outputs)} {{\n{nodes}\n}}")

    with pytest.raises(UnfitError) as refused:
        of(context, start)
    assert str(refused.value) == reason


def test_stored_codes_that_are_an_input_too_belong_to_the_model():
    context = read(f"{HEAD.format(outputs='')} {{ y = DequantizeLinear (w, s, z) }}")
    proto = context.model.proto
    proto.graph.input.append(onnx.helper.make_tensor_value_info("w", onnx.TensorProto.INT8, [4]))

    assert [value.name for value in of(read(proto), "y").constants] == ["w"]


@pytest.mark.parametrize("op_type", ["QuantizeLinear", "DequantizeLinear"])
def test_codes_that_are_not_there_cannot_be_changed(op_type: str):
    context = read(
        "agraph (float[4] x) => (float[4] y) <float s = {0.5}, uint8 z = {0}> { y = QuantizeLinear (x, s, z) }"
    )
    (node,) = context.model.proto.graph.node
    node.op_type = op_type
    if op_type == "QuantizeLinear":
        node.output[0] = ""
    else:
        node.input[0] = "nowhere"
    changed = read(context.model.proto)

    with pytest.raises(UnfitError) as refused:
        CodeGroup.of(changed, changed.qdq.nodes[0])
    assert str(refused.value) == "no node makes the codes, and they are not stored"


@pytest.mark.parametrize(
    ("quantize", "dequantize", "shared"),
    [
        ("<axis = 1> (x, s, z)", "<axis = 1> (q, s, z)", True),
        ("<axis = 1> (x, s, z)", "<axis = 1> (q, s_copy, z_copy)", True),
        ("<axis = 1> (x, s, z)", "<axis = 1> (q, other, z)", False),
        ("<axis = 1> (x, s, z)", "<axis = 1> (q, s, five)", False),
        ("<axis = 1> (x, s, z)", "<axis = 0> (q, s, z)", False),
    ],
)
def test_nodes_share_constants_where_scale_zero_point_and_axis_are_equal(
    quantize: str, dequantize: str, *, shared: bool
):
    context = read(
        f"""
        agraph (float[2,2] x) => (float[2,2] y)
        <float[2] s = {{0.5, 1}}, float[2] s_copy = {{0.5, 1}}, float[2] other = {{0.5, 2}},
         int8[2] z = {{0, 0}}, int8[2] z_copy = {{0, 0}}, int8[2] five = {{0, 5}}> {{
            q = QuantizeLinear {quantize}
            y = DequantizeLinear {dequantize}
        }}
        """
    )
    if shared:
        assert of(context, "q").shared().scale.tolist() == [0.5, 1]
        return
    with pytest.raises(UnfitError) as refused:
        of(context, "q").shared()
    assert str(refused.value) == "nodes that share the codes have different scales or zero points"
