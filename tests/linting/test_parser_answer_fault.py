"""Which node of a model TensorRT's parser means: by its name and operator, else by its place in the main graph."""

import onnx.parser
import pytest

from qdqtool.linting.parser_answer import ParserFault
from qdqtool.linting.rules import RuleContext
from qdqtool.models.graph.model import Model

TEXT = """<ir_version: 10, opset_import: ["": 21, "local": 1]>
g (float[2] x, bool c) => (float[2] y) {
    [one] a = Relu (x)
    [two] b = Abs (a)
    [two] d = Neg (b)
    [twin] e = Relu (d)
    [twin] f = Relu (e)
    h = If (c) <then_branch = t () => (float[2] p) { n = Sqrt (x) p = Exp (n) },
                else_branch = s () => (float[2] q) { q = Sqrt (x) }>
    y = local.F (h)
}
<domain: "local", opset_import: ["": 21]> F (u) => (v) { v = Log (u) }
"""


@pytest.mark.parametrize(
    ("given", "output"),
    [
        ({"name": "one", "op_type": "Relu"}, "a"),
        ({"name": "two", "op_type": "Abs"}, "b"),
        ({"name": "two", "op_type": "Neg"}, "d"),
        ({"name": "one", "op_type": "Abs"}, None),
        ({"name": "three", "op_type": "Relu"}, None),
        # The place tells nodes of one name apart, and is that of another node where the parser has sorted the nodes.
        ({"name": "twin", "op_type": "Relu"}, None),
        ({"name": "twin", "op_type": "Relu", "index": 3}, "e"),
        ({"name": "twin", "op_type": "Relu", "index": 4}, "f"),
        ({"name": "twin", "op_type": "Relu", "index": 0}, None),
        # Without a name the place is all there is.
        ({"op_type": "Relu", "index": 0}, "a"),
        ({"op_type": "Abs", "index": 1}, "b"),
        ({"op_type": "If", "index": 5}, "h"),
        ({"op_type": "Abs", "index": 0}, None),
        ({"op_type": "Abs"}, None),
        ({}, None),
        # Places in branches and local functions are others.
        ({"op_type": "Sqrt", "index": 0}, None),
        ({"op_type": "Log", "index": 0}, None),
    ],
)
def test_the_node_at_fault(given: dict[str, str | int], output: str | None):
    nodes = RuleContext(Model(onnx.parser.parse_model(TEXT))).nodes

    found = ParserFault(title="TensorRT", reason="it refuses", **given).node(nodes)

    assert (found and found.proto.output[0]) == output
