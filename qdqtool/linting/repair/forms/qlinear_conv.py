"""Rewrite QLinearConv as Conv between DQ and Q.

ONNX Runtime's QLinearConv multiplies the integer sum by a float and rounds once. Conv and Q round the float sum. Codes
may differ by one step if the two results are on different sides of a half.
"""

from collections.abc import Iterator

from qdqtool.linting.repair.forms._q_operator import FLOATED, Codes, float_bias, write_float
from qdqtool.linting.rules import Draft, Fix, RuleContext
from qdqtool.models.graph.index.view import NodeView

BIAS = 8


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every QLinearConv."""
    for node in context.nodes:
        if node.is_op("QLinearConv"):
            yield node, FLOATED.fix("writes QLinearConv as Conv between DQ and Q", _write, node)


def _write(node: NodeView, draft: Draft) -> None:
    bias = float_bias(draft, node, BIAS, (1, 4))
    operands = (Codes(0, 1, 2), Codes(3, 4, 5, axis=0))
    write_float(draft, node, "Conv", operands, Codes(None, 6, 7), bias)
