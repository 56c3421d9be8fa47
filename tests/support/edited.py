"""Small models that edits are tried on, in ONNX's text form."""

import onnx

from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, ScopePath, walk

CHAIN = "g (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { a = Relu(x)  b = Mul(a, w)  y = Add(a, b) }"
BODIES = (
    "g (float[4] x, bool c) => (float[4] y) <float[4] w = {1,2,3,4}> { a = Relu(x)"
    "  y = If(c) <then_branch = t () => (float[4] p) { inner = Add(a, w)  p = Relu(inner) },"
    " else_branch = e () => (float[4] q) { q = Abs(x) }> }"
)
THEN_BODY = ("y.then_branch",)


def text_model(text: str) -> Model:
    """A model of opset 17 from the text of its graph."""
    return Model(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'))


def outputs_in_order(model: Model, path: ScopePath = MAIN) -> list[str]:
    """The first output of every node of a scope, in file order."""
    return [node.output[0] for node in dict(walk(model.proto))[path].node]
