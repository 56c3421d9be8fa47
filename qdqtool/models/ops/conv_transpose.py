"""ConvTranspose."""

from onnx import TensorProto

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout, ProductOp
from qdqtool.models.ops._traits import NO_BFLOAT16, Traits
from qdqtool.numerics.product import ProductLayout


class _ConvTranspose(ProductOp):
    """ConvTranspose, with weight ``[C, M/group, k1, ...]``.

    In ONNX, axis 1 counts the output channels, but NVIDIA's kernels are reported to need scales on axis 0
    (NVIDIA/TensorRT issues 1694 and 2380). TensorRT for RTX runs it in float with any axis. Therefore only per-tensor
    weights are portable.
    """

    op_types = ("ConvTranspose",)
    bias_input = 2
    channel_layout = ChannelLayout.FIRST
    is_convolution = True
    takes_batchnorm = True
    stays_float = "TensorRT for RTX runs it in float, with and without pairs"
    on_request = True
    no_turing_kernel = (TensorProto.BFLOAT16,)

    def output_axis(self, node: NodeView, rank: int) -> int | None:
        """Return axis 1."""
        return 1

    def output_groups(self, node: NodeView) -> int:
        """Return the attribute ``group``."""
        return int(node.attribute("group", 1))

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return axis 0."""
        return 0

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """Return a layout with groups, then input channels, then output channels."""
        groups = node.attribute("group", 1)
        fits = len(shape) > 2 and groups >= 1 and shape[0] % groups == 0
        return ProductLayout(shape, groups, inputs_first=True) if fits else None


TRAITS = {"ConvTranspose": Traits(is_layer=True, no_kernel=NO_BFLOAT16)}
OP = _ConvTranspose()
