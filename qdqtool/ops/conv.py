"""Conv in one to three dimensions, grouped and depthwise too."""

from qdqtool.graph.view import NodeView
from qdqtool.ops._op import QuantizableOp


class _Conv(QuantizableOp):
    """Weight ``[M, C/group, k1, ...]``: output channels on axis 0. No kernel takes blocks of input channels."""

    op_types = ("Conv",)
    weight_input = 1
    bias_input = 2

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Axis 0."""
        del node, rank
        return 0

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Axis 1."""
        del node
        return 1 if rank > 1 else None


OP = _Conv()
