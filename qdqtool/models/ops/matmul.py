"""MatMul of an activation with a weight, or of two activations."""

from onnx import TensorProto

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout, ProductOp
from qdqtool.models.ops._traits import Traits
from qdqtool.numerics.product import ProductLayout


class _MatMul(ProductOp):
    """MatMul, with weight ``[..., K, N]``."""

    op_types = ("MatMul",)
    two_activations = True
    channel_layout = ChannelLayout.LAST
    is_matrix_product = True
    packs_channels = True
    sums_evenly = True
    # The builder of TensorRT for RTX reports "FP32 GEMM is not supported" for compute capability 7.5.
    no_turing_kernel = (TensorProto.FLOAT, TensorProto.BFLOAT16)

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the last axis, the axis of N."""
        return rank - 1 if rank >= 2 else None

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the second to last axis, the axis of K; for a vector, its only axis."""
        return max(rank - 2, 0)

    def row_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the second to last axis."""
        return rank - 2

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """Return the layout of a single matrix, or None for other ranks."""
        return ProductLayout(shape, inputs_first=True) if len(shape) == 2 else None


TRAITS = {"MatMul": Traits(is_layer=True)}
OP = _MatMul()
