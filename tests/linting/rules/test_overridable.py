"""QM608: constants of Q and DQ that are graph inputs too."""

import onnx
import pytest
from support.one_rule import findings, fixed, parsed


def model(inputs: str, body: str, ir_version: int = 10) -> onnx.ModelProto:
    made = parsed(f"""agraph (float[2] x{inputs}) => (float[2] y)
    <float s = {{1}}, int8 z = {{0}}, int8[2] w = {{1, 2}}, float[2] f = {{1, 2}}> {{ {body} }}""")
    made.ir_version = ir_version
    return made


PAIR = "[q] c = QuantizeLinear (x, s, z) [d] y = DequantizeLinear (c, s, z)"


@pytest.mark.parametrize(
    ("inputs", "body", "expected"),
    [
        ("", PAIR, []),
        (", float s", PAIR, [("q", "scale 's' of this Q")]),
        (", float s, int8 z", PAIR, [("q", "scale 's' of this Q"), ("q", "zero point 'z' of this Q")]),
        (", int8[2] w", "[d] y = DequantizeLinear (w, s)", [("d", "weight 'w' of this DQ")]),
        (", float[2] f", "[q] y = QuantizeLinear (f, s)", []),
        # A scale that is an input alone is reported by the rule about scales that are computed (QP104).
        (", float t", "[q] y = QuantizeLinear (x, t)", []),
        (", int8[2] k", "[d] y = DequantizeLinear (k, s)", []),
    ],
)
def test_what_is_reported(inputs: str, body: str, expected: list[tuple[str, str]]):
    told = [(each.node, each.message) for each in findings("QM608", model(inputs, body))]

    assert told == [(node, f"{what} is also a graph input") for node, what in expected]


@pytest.mark.parametrize(("ir_version", "reported"), [(3, False), (4, True)])
def test_before_ir_version_4_every_initializer_is_an_input(ir_version: int, reported: bool):
    assert bool(findings("QM608", model(", float s", PAIR, ir_version))) == reported


def test_the_fix_takes_the_name_out_of_the_inputs():
    changed = fixed("QM608", model(", float s", PAIR))

    assert [each.name for each in changed.graph.input] == ["x"]
    assert "s" in {each.name for each in changed.graph.initializer}
    assert findings("QM608", changed) == []
