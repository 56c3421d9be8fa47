"""Rewrite QLinearMatMul as MatMul between DQ and Q; codes may differ by one step, as for QLinearConv."""

from collections.abc import Iterator

from qdqtool.linting.repair.forms._q_operator import FLOATED, Codes, write_float
from qdqtool.linting.rules import Draft, Fix, RuleContext
from qdqtool.models.graph.index.view import NodeView


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every QLinearMatMul."""
    for node in context.nodes:
        if node.is_op("QLinearMatMul"):
            yield node, FLOATED.fix("writes QLinearMatMul as MatMul between DQ and Q", _write, node)


def _write(node: NodeView, draft: Draft) -> None:
    right = draft.context.shape(node.input(3))
    columns = len(right) - 1 if right else None
    operands = (Codes(0, 1, 2), Codes(3, 4, 5, axis=columns))
    write_float(draft, node, "MatMul", operands, Codes(None, 6, 7))
