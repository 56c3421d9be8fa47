"""Concat: moves values, but only inputs with equal scales can be joined as codes."""

from qdqtool.graph.view import NodeView
from qdqtool.ops._op import QuantizableOp


class _Concat(QuantizableOp):
    """All inputs take pairs, with one scale."""

    op_types = ("Concat",)

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Every input."""
        return tuple(range(len(node.proto.input)))


OP = _Concat()
