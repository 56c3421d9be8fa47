"""MatMul, of an activation with a weight or of two activations."""

from qdqtool.graph.index.view import NodeView
from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Traits


class _MatMul(QuantizableOp):
    """Weight ``[..., K, N]``."""

    op_types = ("MatMul",)
    weight_input = 1
    two_activations = True

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """The last axis, N."""
        del node
        return rank - 1 if rank >= 2 else None

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """The second to last axis, K; the only one of a vector."""
        del node
        return max(rank - 2, 0)


TRAITS = {"MatMul": Traits(is_layer=True)}
OP = _MatMul()
