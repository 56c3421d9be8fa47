"""The traits of an operator: one record of data for each operator of the default domain.

A record states the properties on which other code relies. A property that is not stated may hold all the same: then no
code relies on it, and code that follows a tensor stops at the operator.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView
from qdqtool.ops._channels import ChannelLayout

FactorRule = Callable[[NodeView, ChannelLayout, Constants], ChannelLayout | None]
"""Returns the channel layout behind a node, given that in front; None where the node does not commute with positive
factors of channels."""

AxisRule = Callable[[NodeView, int, int | None], int | None]
"""Returns the axis of the input that becomes a given axis of the output, for a tensor of a rank (None where that is
unknown); None where it is unknown."""


class Codes(enum.Enum):
    """How TensorRT passes codes through an operator, from a DQ in front to a product behind that reads the codes.

    Measured in the layer dump of TensorRT for RTX 1.7.1. Behind an operator of none of these kinds a product reads
    float.

    ``MOVED``: codes are moved, or selected by place or order. ``POINTWISE``: each code is replaced, axes stay.
    ``SELECTED``: as moved, by a reduction. ``SCALED``: values are multiplied with one constant, which the compiler
    multiplies into the scale. ``JOINED``: codes of several tensors with the same scale. ``PADDED``: constant padding in
    front of a convolution, which pads with zeros itself, and any other padding.
    """

    MOVED = "moved"
    POINTWISE = "pointwise"
    SELECTED = "selected"
    SCALED = "scaled"
    JOINED = "joined"
    PADDED = "padded"


@dataclass(frozen=True, kw_only=True)
class ValueTraits:
    """The values of the output, given those of the first input.

    Attributes:
        moves_values: Whether every float value of every output is a value of the first input, selected by its place or
            by the order of values. A function of each value alone that keeps their order, such as Q and DQ with one
            scale, may be applied on either side of such an operator without changing any number.
        moves_values_if: For an operator that only moves values with some attributes: whether a node has these.
        passes_values: Whether the output has the values of the first input, each in its place, in the same or another
            type. A Dropout counts: models are run for inference.
        keeps_sign: Whether no value of the output is negative where none of the first input is.
        nonnegative: Whether no value of the output is negative, for any input.
        keeps_magnitude: Whether no value of the output has a larger magnitude than the largest of the first input.
        keeps_order_only: Whether the output depends only on the order or the number of values, not on their size: for
            codes such an operator returns what it returns for the dequantized values.
        softmax: Whether it normalizes exponentials, among which a value far below the others has no weight: there any
            large negative number represents minus infinity.
        carries_infinity: Whether the values of the first output are values of the first input, or 0, so that a number
            that represents infinity in the input does so in the output.
        source_axis: For an operator that changes only the order of axes: the origin of an axis.
    """

    moves_values: bool = False
    moves_values_if: Callable[[NodeView], bool] | None = None
    passes_values: bool = False
    keeps_sign: bool = False
    nonnegative: bool = False
    keeps_magnitude: bool = False
    keeps_order_only: bool = False
    softmax: bool = False
    carries_infinity: bool = False
    source_axis: AxisRule | None = None

    @property
    def reorders_axes(self) -> bool:
        """Whether it changes only the order of axes."""
        return self.source_axis is not None


@dataclass(frozen=True, kw_only=True)
class ChannelTraits:
    """The effect on the channels of the first input.

    Attributes:
        keeps_channels: Whether the output has the channels of the inputs, in the same order.
        flattens_channels: Whether it may join each channel with the axes behind, so that its values become neighbours.
        factor_rule: The channel layout behind it, if a positive factor for each channel may be applied on either side.
        normalizes: The layout of the channels that it normalizes and multiplies with a stored vector at input 1 (and
            to which it adds the vector at input 2); None for other operators.
    """

    keeps_channels: bool = False
    flattens_channels: bool = False
    factor_rule: FactorRule | None = None
    normalizes: ChannelLayout | None = None


@dataclass(frozen=True, kw_only=True)
class IndexTraits:
    """The relation to indices and shapes.

    Attributes:
        index_inputs: Inputs that are shapes, indices, counts or conditions.
        computes_indices: Whether models compute indices and shapes with it, as well as data.
        carries_indices: Whether the integers of its first output are integers of its first input, so that bounds of the
            input are bounds of the output.
        looks_up: Whether its second input holds indices into the first along the attribute ``axis``.
        is_layer: Whether it is a layer of a network: its output is no index, even where it is rounded to one later.
    """

    index_inputs: tuple[int, ...] = ()
    computes_indices: bool = False
    carries_indices: bool = False
    looks_up: bool = False
    is_layer: bool = False


@dataclass(frozen=True, kw_only=True)
class KernelTraits:
    """The kernels of engines for it.

    Attributes:
        codes: How TensorRT passes codes through it; None where a product behind it reads float.
        fused_behind_products: Whether TensorRT computes it in the kernel of a product in front of it.
        lacks_int8: Whether TensorRT for RTX 1.7.1 refuses to compute it on int8; others it computes on the bare codes.
        lacks_uint8: Whether TensorRT for RTX 1.7.1 was seen to refuse uint8 data in it. It takes uint8 in Cast, Equal
            and Shape.
        stays_float32: Why it stays float32 although ONNX defines it for float16; empty where there is no reason.
        float32_inputs: Inputs that stay float32 although ONNX allows other types, since they determine a shape.
    """

    codes: Codes | None = None
    fused_behind_products: bool = False
    lacks_int8: bool = False
    lacks_uint8: bool = False
    stays_float32: str = ""
    float32_inputs: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Traits(ValueTraits, ChannelTraits, IndexTraits, KernelTraits):
    """The traits of one operator, except how it is quantized (see :class:`~qdqtool.ops.QuantizableOp`)."""


UNKNOWN = Traits()
"""The traits of an unknown operator."""

MOVING = Traits(
    moves_values=True,
    keeps_sign=True,
    keeps_magnitude=True,
    carries_infinity=True,
    carries_indices=True,
    codes=Codes.MOVED,
)
"""The traits of an operator that only moves values. Modules add further ones with ``dataclasses.replace``."""
