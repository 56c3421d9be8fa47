"""Conv in one to three dimensions, including grouped and depthwise."""

from collections.abc import Sequence
from math import prod

from onnx import TensorProto

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout, ProductOp
from qdqtool.models.ops._traits import Traits
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.product import ProductLayout

LARGEST_FLOAT_KERNEL = 32
"""fp8 convolutions may have at most this many kernel elements. Measured with TensorRT for RTX 1.7 in one to three
dimensions: 4 x 8 and 1 x 32 run in fp8, 5 x 7 and 1 x 33 in float. int8 has no such limit."""


class _Conv(ProductOp):
    """Conv, with weight ``[M, C/group, k1, ...]``: output channels on axis 0. No kernel supports block scales."""

    op_types = ("Conv",)
    bias_input = 2
    channel_layout = ChannelLayout.FIRST
    is_convolution = True
    packs_channels = True
    fuses_add = True
    takes_batchnorm = True
    sums_evenly = True
    no_turing_kernel = (TensorProto.BFLOAT16,)

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Return axis 0."""
        return 0

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return axis 1."""
        return 1 if rank > 1 else None

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """Return a layout with groups, then output channels, then input channels."""
        groups = node.attribute("group", 1)
        fits = len(shape) > 2 and groups >= 1 and shape[0] % groups == 0
        return ProductLayout(shape, groups) if fits else None

    def missing_kernel(
        self, node: NodeView, weight_shape: Sequence[int | str | None], number_format: NumberFormat
    ) -> str | None:
        """Return why floating-point formats do not accept kernels above :data:`LARGEST_FLOAT_KERNEL` elements."""
        extents = [extent for extent in weight_shape[2:] if isinstance(extent, int)]
        if number_format.kind == "integer" or prod(extents) <= LARGEST_FLOAT_KERNEL:
            return None
        size = " x ".join(map(str, extents))
        return f"its kernel is {size}: {number_format} convolutions take {LARGEST_FLOAT_KERNEL} elements at most"


TRAITS = {"Conv": Traits(is_layer=True)}
OP = _Conv()
