"""MatMul, of an activation with a weight or of two activations."""

from onnx import TensorProto

from qdqtool.graph.index.view import NodeView
from qdqtool.numerics.product import ProductLayout
from qdqtool.ops._channels import ChannelLayout
from qdqtool.ops._product import ProductOp
from qdqtool.ops._traits import Traits


class _MatMul(ProductOp):
    """Weight ``[..., K, N]``."""

    op_types = ("MatMul",)
    two_activations = True
    channel_layout = ChannelLayout.LAST
    is_matrix_product = True
    packs_channels = True
    sums_evenly = True
    no_turing_kernel = (TensorProto.FLOAT, TensorProto.BFLOAT16)

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """The last axis, N."""
        del node
        return rank - 1 if rank >= 2 else None

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """The second to last axis, K; the only one of a vector."""
        del node
        return max(rank - 2, 0)

    def row_axis(self, node: NodeView, rank: int) -> int | None:
        """The second to last axis."""
        del node
        return rank - 2

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """One matrix."""
        del node
        return ProductLayout(shape, inputs_first=True) if len(shape) == 2 else None


TRAITS = {"MatMul": Traits(is_layer=True)}
OP = _MatMul()
