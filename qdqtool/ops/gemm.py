"""Gemm."""

from qdqtool.graph.index.view import NodeView
from qdqtool.ops._op import QuantizableOp
from qdqtool.ops._traits import Traits


class _Gemm(QuantizableOp):
    """Weight ``[K, N]``, or ``[N, K]`` with ``transB``."""

    op_types = ("Gemm",)
    weight_input = 1
    bias_input = 2
    two_activations = True

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """The axis of N."""
        del rank
        return 0 if node.attribute("transB", 0) else 1

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """The axis of K."""
        del rank
        return 1 if node.attribute("transB", 0) else 0


TRAITS = {"Gemm": Traits(is_layer=True)}
OP = _Gemm()
