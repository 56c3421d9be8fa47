"""Names of layers as TensorRT gives them; the corpus compares the rule about them with the parser."""

import onnx
import pytest

from qdqtool.graph.model import Model
from qdqtool.rules import RuleContext
from qdqtool.rules.support.layer_names import MAX_DEPTH, taken_names

HEADER = '<ir_version: 10, opset_import: ["": 21, "my": 1]>\n'
PAIR = "s = Constant <value = float {0.1}> () q = QuantizeLinear (x, s) y = DequantizeLinear (q, s)"


def taken(text: str) -> list[tuple[str, str, bool]]:
    context = RuleContext(Model(onnx.parser.parse_model(HEADER + text)))
    return [(each.name, each.owner, each.again) for each in taken_names(context)]


def function(name: str, body: str) -> str:
    return f'<domain: "my", opset_import: ["": 21, "my": 1]> {name} (x) => (y) {{ {body} }} '


def test_each_node_of_a_function_is_told_once_however_often_it_is_called():
    calls = "a = my.F (x) b = my.F (a) c = my.F (b) y = my.F (c)"
    found = taken(f"g (float[4] x) => (float[4] y) {{ {calls} }} {function('F', PAIR)}")

    assert [(name, again) for name, _, again in found] == [("node_of_q", True), ("node_of_y", True)]


def test_functions_that_call_each_other_end():
    both = function("F", "y = my.G (x)") + function("G", "y = my.F (x)")

    assert taken(f"g (float[4] x) => (float[4] y) {{ y = my.F (x) }} {both}") == []


@pytest.mark.parametrize("depth", [3, MAX_DEPTH + 10])
def test_functions_in_functions_are_followed_to_a_depth(depth: int):
    chain = "".join(function(f"F{number}", f"y = my.F{number + 1} (x)") for number in range(depth))
    text = f"g (float[4] x) => (float[4] y) {{ a = my.F0 (x) y = my.F0 (a) }} {chain}{function(f'F{depth}', PAIR)}"

    assert bool(taken(text)) == (depth < MAX_DEPTH)


def test_the_owner_of_a_name_is_told():
    text = (
        "g (float[4] x) => (float[4] y) <float s = {0.1}> { [s] q = QuantizeLinear (x, s) y = DequantizeLinear (q, s) }"
    )

    assert taken(text) == [("s", "the constant 's'", False)]
