"""The base class of operator families, and the base class of weighted operators with the layout of their weights."""

import enum
from collections.abc import Sequence
from typing import ClassVar

from qdqtool.models.graph.index.view import NodeView
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.product import ProductLayout


class QuantizableOp:
    """An operator family. Subclasses set class attributes, and override a method if the answer depends on the node.

    Attributes:
        domain: Domain of the operators; empty for the default domain.
        op_types: Operators of that domain.
        activation_inputs: Inputs that get per-tensor pairs.
        stays_float: Why pairs have no benefit, as words to print after the name of a node; None if they have a benefit.
        on_request: Whether pairs are inserted if the user names the operator, although they have no benefit.
        no_turing_kernel: Output types for which TensorRT for RTX has no kernel on compute capability 7.5.
    """

    domain: ClassVar[str] = ""
    op_types: ClassVar[tuple[str, ...]]
    activation_inputs: ClassVar[tuple[int, ...]] = (0,)
    stays_float: ClassVar[str | None] = None
    on_request: ClassVar[bool] = False
    no_turing_kernel: ClassVar[tuple[int, ...]] = ()

    def of(self, node: NodeView) -> "QuantizableOp | None":
        """Return the family that describes ``node``: this one, unless its attributes change what the node computes."""
        return self

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return the inputs of ``node`` that get a pair: activations first, then the weight."""
        return self.activation_inputs


class ChannelLayout(enum.Enum):
    """The channel axis of a tensor: axis 1, as in convolutions, or the last axis."""

    FIRST = 1
    LAST = -1

    @property
    def axis(self) -> int:
        """The index of the axis: 1 or -1."""
        return self.value


LEAST_CHANNELS = 16
"""A layer needs this many channels to benefit from quantization, because kernels pad channels to tiles of 16 or 32."""


class ProductOp(QuantizableOp):
    """A family of weighted operators: matrix products and convolutions.

    Attributes:
        weight_input: The input that gets a per-axis or blocked pair if it is constant.
        bias_input: The input that is added in the accumulator's type and stays float; None if there is none.
        two_activations: Whether kernels also multiply two activations, instead of an activation and a weight.
        channel_layout: The channel axis of the activation and of the result; None if the weight is never rescaled.
        activation_rank: The only possible rank of the activation; None if several ranks are possible.
        is_matrix_product: Whether it is defined as a product of two matrices. TensorRT for RTX has weight-only kernels,
            kernels for int8 with int4, and fp4 kernels for these operators only.
        is_convolution: Whether it is a convolution; its kernel pads the activation with zeros.
        packs_channels: Whether weight-only kernels accept a scale for each output channel of the weight.
        fuses_add: Whether TensorRT adds another tensor to its result in the same kernel.
        takes_batchnorm: Whether a following BatchNormalization can be folded into it: axis 1 of the result counts
            output channels, and there is a bias input.
        sums_evenly: Whether each value of the result (except at padding) is a sum over all weights of its channel. An
            error of the weight then shifts all values of a channel equally, and a bias can correct it.
    """

    weight_input: ClassVar[int] = 1
    bias_input: ClassVar[int | None] = None
    two_activations: ClassVar[bool] = False
    channel_layout: ClassVar[ChannelLayout | None] = None
    activation_rank: ClassVar[int | None] = None
    is_matrix_product: ClassVar[bool] = False
    is_convolution: ClassVar[bool] = False
    packs_channels: ClassVar[bool] = False
    fuses_add: ClassVar[bool] = False
    takes_batchnorm: ClassVar[bool] = False
    sums_evenly: ClassVar[bool] = False

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return the inputs of ``node`` that get a pair: activations first, then the weight."""
        return (*super().quantized_inputs(node), self.weight_input)

    def gains(self, channels: tuple[int, int]) -> bool:
        """Return whether a layer with these numbers of input and output channels benefits from quantized kernels.

        A convolution applies its weight at many positions, so one large number is enough: the first layer of an image
        model has 3 input channels. A matrix product with few input or few output channels takes little time. As the
        last layer of a classifier it is also the most sensitive to rounding.
        """
        side = min(channels) if self.two_activations else max(channels)
        return side >= LEAST_CHANNELS

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the output-channel axis of a weight of this rank: the only legal axis of per-axis scales."""
        return None

    def output_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of a weight that counts output channels (of one group), by ONNX's definition."""
        return self.weight_axis(node, rank)

    def output_groups(self, node: NodeView) -> int:
        """Return the number of groups of output channels. :meth:`output_axis` counts the channels of one group."""
        return 1

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of a weight over which products are summed; block scales divide this axis."""
        return None

    def row_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of an activation of this rank whose entries become the rows of the result."""
        return None

    def activation_layout(self, node: NodeView) -> ChannelLayout | None:
        """Return the channel axis of the activation of ``node``: :attr:`channel_layout`, unless it is transposed."""
        return self.channel_layout

    def term_factors(self, node: NodeView) -> tuple[float, float]:
        """Return the factors that ``node`` applies to the product and to the bias before it adds them."""
        return 1.0, 1.0

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """Return the layout of a stored weight of this shape.

        Returns:
            None if the shape does not fit the node, or if the operator has no :attr:`channel_layout`.
        """
        return None

    def missing_kernel(
        self, node: NodeView, weight_shape: Sequence[int | str | None], number_format: NumberFormat
    ) -> str | None:
        """Return why kernels of this format do not accept a weight of this shape, or None if they may."""
        return None

    def channels(self, node: NodeView, weight_shape: Sequence[int | str | None]) -> tuple[int, int] | None:
        """Return the numbers of input and output channels of a weight of this shape, or None if unknown or grouped."""
        rank = len(weight_shape)
        if rank < 2 or node.attribute("group", 1) != 1:
            return None
        inner, outer = self.reduction_axis(node, rank), self.weight_axis(node, rank)
        if inner is None or outer is None:
            return None
        extents = weight_shape[inner], weight_shape[outer]
        return (extents[0], extents[1]) if isinstance(extents[0], int) and isinstance(extents[1], int) else None
