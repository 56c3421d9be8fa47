"""Gemm."""

from onnx import TensorProto

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout, ProductOp
from qdqtool.models.ops._traits import Traits
from qdqtool.numerics.product import ProductLayout


class _Gemm(ProductOp):
    """Gemm. Weight ``[K, N]``, or ``[N, K]`` with ``transB``. Activation ``[M, K]``, or ``[K, M]`` with ``transA``."""

    op_types = ("Gemm",)
    bias_input = 2
    two_activations = True
    channel_layout = ChannelLayout.LAST
    activation_rank = 2
    is_matrix_product = True
    packs_channels = True
    takes_batchnorm = True
    sums_evenly = True
    # The builder of TensorRT for RTX reports "FP32 GEMM is not supported" for compute capability 7.5.
    no_turing_kernel = (TensorProto.FLOAT, TensorProto.BFLOAT16)

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of N."""
        return 0 if node.attribute("transB", 0) else 1

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of K."""
        return 1 if node.attribute("transB", 0) else 0

    def row_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of M."""
        return 1 if node.attribute("transA", 0) else rank - 2

    def activation_layout(self, node: NodeView) -> ChannelLayout | None:
        """Return the last axis, or None with ``transA``: the first axis has no layout."""
        return None if node.attribute("transA", 0) else self.channel_layout

    def term_factors(self, node: NodeView) -> tuple[float, float]:
        """Return ``alpha`` and ``beta``."""
        return node.attribute("alpha", 1.0), node.attribute("beta", 1.0)

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """Return the layout of a matrix, or None with ``transA``: the channels of the activation are then on axis 0."""
        if len(shape) != 2 or node.attribute("transA", 0):
            return None
        return ProductLayout(shape, inputs_first=not node.attribute("transB", 0))


TRAITS = {"Gemm": Traits(is_layer=True)}
OP = _Gemm()
