"""QM613: constants of Q and DQ whose bytes do not fit their shape, each reported once."""

import onnx
from support.one_rule import findings, parsed


def damaged(body: str, *names: str) -> onnx.ModelProto:
    model = parsed(
        f"""agraph (float[2,2] x) => (float[2,2] y)
        <float[2] s = {{1,1}}, float[2] t = {{1,1}}, int8[2] z = {{0,0}}, int8[2] k = {{0,0}}> {{ {body} }}"""
    )
    for tensor in model.graph.initializer:
        if tensor.name in names:
            tensor.CopyFrom(
                onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=[2], raw_data=b"\1\2\3")
            )
    return model


def told(model: onnx.ModelProto) -> list[tuple[str | None, str | None]]:
    return [(each.node, each.tensor) for each in findings("QM613", model, "onnx")]


def test_a_constant_of_several_nodes_is_reported_at_the_first():
    body = "[q] c = QuantizeLinear (x, s, z) [d] y = DequantizeLinear (c, s, z)"

    assert told(damaged(body)) == []
    assert told(damaged(body, "s")) == [("q", "s")]
    assert told(damaged(body, "s", "z")) == [("q", "s"), ("q", "z")]


def test_absent_and_sound_constants_hide_nothing_behind_them():
    body = "[q] c = QuantizeLinear (x, s) [d] y = DequantizeLinear (c, s, z) [e] u = QuantizeLinear (x, s, k)"

    assert told(damaged(body, "z", "k")) == [("d", "z"), ("e", "k")]


def test_the_message_says_what_does_not_fit():
    (found,) = findings("QM613", damaged("[q] c = QuantizeLinear (x, s, z)", "z"), "onnx")

    assert "'z'" in found.message
    assert (found.found, found.expected) == ("bytes that do not fit", "as many values as the shape has")


def test_codes_of_a_dq_are_no_parameter():
    assert told(damaged("y = DequantizeLinear (k, s)", "k")) == []
