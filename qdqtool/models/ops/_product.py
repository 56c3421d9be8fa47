"""The type of a family of operators that multiply an activation with weights: the layout of weights and channels."""

import enum
from collections.abc import Sequence
from typing import ClassVar

from qdqtool.models.graph.index.view import NodeView
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.product import ProductLayout


class QuantizableOp:
    """One operator family. Subclasses are class data; they override a method where the answer depends on the node.

    Attributes:
        domain: Domain of the operators; empty for ONNX's own.
        op_types: Operators of that domain.
        activation_inputs: Inputs that take per-tensor pairs.
        stays_float: Why it gains nothing from pairs, in words that follow the name of a node; None where it gains.
        on_request: Whether an operator that gains nothing is quantized all the same for a user who names it.
        no_kernel: Types of its output, as ``TensorProto.DataType``, for which TensorRT for RTX has no kernel on
            any GPU.
        no_turing_kernel: Types for which it has none on compute capability 7.5.
    """

    domain: ClassVar[str] = ""
    op_types: ClassVar[tuple[str, ...]]
    activation_inputs: ClassVar[tuple[int, ...]] = (0,)
    stays_float: ClassVar[str | None] = None
    on_request: ClassVar[bool] = False
    no_kernel: ClassVar[tuple[int, ...]] = ()
    no_turing_kernel: ClassVar[tuple[int, ...]] = ()

    def of(self, node: NodeView) -> "QuantizableOp | None":
        """Return what is known of one node: the family, unless the attributes of the node make it something else."""
        return self

    def quantized_inputs(self, node: NodeView) -> tuple[int, ...]:
        """Return the inputs of ``node`` that take a pair: activations first, then the weight."""
        return self.activation_inputs


class ChannelLayout(enum.Enum):
    """The channel axis of a tensor: axis 1, as in convolutions, or the last axis."""

    FIRST = 1
    LAST = -1

    @property
    def axis(self) -> int:
        """The index of the axis: 1, or -1."""
        return self.value


LEAST_CHANNELS = 16
"""The least number of channels of a layer that gains: kernels work on tiles of 16 or 32 channels, and pad to them."""


class ProductOp(QuantizableOp):
    """One family of products.

    Attributes:
        weight_input: The input that takes a per-axis or blocked pair when it is constant.
        bias_input: The input that is added in the accumulator's type and stays float; None without one.
        two_activations: Whether kernels take two activations as well as an activation and a weight.
        channel_layout: The channel axis of its activation and of its result; None for an operator whose stored weight
            is never rescaled.
        activation_rank: The only rank that its activation may have; None if it may have several.
        is_matrix_product: Whether it multiplies two matrices by definition. TensorRT for RTX computes only these
            operators with a float activation and a packed weight, with int8 and int4, or with fp4.
        is_convolution: Whether it is a convolution, whose kernel pads the activation with zeros.
        packs_channels: Whether weight-only kernels take its weight with a scale for each output channel.
        fuses_add: Whether TensorRT adds another tensor to its result in the same kernel.
        takes_batchnorm: Whether a BatchNormalization behind it can be folded into it: axis 1 of its result has the
            output channels, and it has a bias.
        sums_evenly: Whether each value of its result, but for padding, sums over the whole weight of its channel. Then
            an error of the weight shifts all values of a channel alike, and a bias can correct it.
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
        """Return the inputs of ``node`` that take a pair: activations first, then the weight."""
        return (*super().quantized_inputs(node), self.weight_input)

    def gains(self, channels: tuple[int, int]) -> bool:
        """Return whether a layer with so many input and output channels gains from quantized kernels.

        A convolution applies its weight at many places, so one side of a full tile is enough: the first layer of an
        image model has 3 input channels. A matrix product with a short side takes little time, and as the last layer of
        a classifier it is most sensitive to rounding.
        """
        side = min(channels) if self.two_activations else max(channels)
        return side >= LEAST_CHANNELS

    def weight_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the output-channel axis of a weight of that rank: the only legal axis of per-axis scales."""
        return None

    def output_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of such a weight that has the output channels (of one group) by ONNX's definition."""
        return self.weight_axis(node, rank)

    def output_groups(self, node: NodeView) -> int:
        """Return the number of groups of output channels that share :meth:`output_axis`."""
        return 1

    def reduction_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of such a weight over which products are summed: the axis that block scales divide."""
        return None

    def row_axis(self, node: NodeView, rank: int) -> int | None:
        """Return the axis of an activation of that rank whose entries become the rows of the result."""
        return None

    def activation_layout(self, node: NodeView) -> ChannelLayout | None:
        """Return the channel axis of the activation of ``node``: :attr:`channel_layout`, unless it transposes."""
        return self.channel_layout

    def term_factors(self, node: NodeView) -> tuple[float, float]:
        """Return the numbers with which ``node`` multiplies the product and the bias before it adds them."""
        return 1.0, 1.0

    def product_layout(self, node: NodeView, shape: tuple[int, ...]) -> ProductLayout | None:
        """Return the layout of a stored weight of that shape.

        Returns:
            None where the shape does not fit the node, and for operators without :attr:`channel_layout`.
        """
        return None

    def missing_kernel(
        self, node: NodeView, weight_shape: Sequence[int | str | None], number_format: NumberFormat
    ) -> str | None:
        """Return why kernels of that format do not take a weight of that shape; None if they may."""
        return None

    def channels(self, node: NodeView, weight_shape: Sequence[int | str | None]) -> tuple[int, int] | None:
        """Return the input and output channels of a weight of that shape; None if unknown or grouped."""
        rank = len(weight_shape)
        if rank < 2 or node.attribute("group", 1) != 1:
            return None
        inner, outer = self.reduction_axis(node, rank), self.weight_axis(node, rank)
        if inner is None or outer is None:
            return None
        extents = weight_shape[inner], weight_shape[outer]
        return (extents[0], extents[1]) if isinstance(extents[0], int) and isinstance(extents[1], int) else None
