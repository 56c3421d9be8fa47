"""What an operator does to the values that it reads: one record of data for each operator of the default domain.

A record says what other code relies on. A property that is not stated may hold all the same: then nothing relies on
it, and whoever follows a tensor stops at the operator.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.graph.index.constants import Constants
from qdqtool.graph.index.view import NodeView
from qdqtool.ops._channels import ChannelLayout

FactorRule = Callable[[NodeView, ChannelLayout, Constants], ChannelLayout | None]
"""Where the channels lie behind a node, given where they lie in front; None where the node does not commute with
positive factors for them."""

AxisRule = Callable[[NodeView, int, int | None], int | None]
"""The axis of what a node reads that becomes a given axis of its output, for a tensor of a rank (None where that is
unknown); None where it cannot be told."""


class Codes(enum.Enum):
    """How TensorRT gets codes through an operator, from a DQ in front to a product behind that reads the codes.

    Measured in the layer dump of TensorRT for RTX 1.7.1. Behind an operator of none of these kinds a product reads
    float.

    ``MOVED``: codes are moved or selected by place or order. ``POINTWISE``: each code is replaced, axes stay.
    ``SELECTED``: as moved, by a reduction. ``SCALED``: by one constant number, which the compiler multiplies the scale
    with. ``JOINED``: codes of several tensors, where all have one scale. ``PADDED``: constant padding in front of a
    convolution, which pads with zeros itself, and any other padding.
    """

    MOVED = "moved"
    POINTWISE = "pointwise"
    SELECTED = "selected"
    SCALED = "scaled"
    JOINED = "joined"
    PADDED = "padded"


@dataclass(frozen=True, kw_only=True)
class ValueTraits:
    """Which values come out, given those of the first input.

    Attributes:
        moves_values: Whether every float value of every output is a value of the first input, picked by its place or by
            the order of values. What is done to each value alone and keeps their order, such as Q and DQ with one
            scale, may be done on either side of such an operator without changing any number.
        moves_values_if: For an operator that only moves values with some attributes: whether a node has these.
        passes_values: Whether the output has the values of the first input, each in its place, be it in another type.
            A Dropout counts: models are run for inference.
        keeps_sign: Whether no value of the output is negative where none of the first input is.
        nonnegative: Whether no value of the output is negative, whatever is read.
        keeps_magnitude: Whether no value of the output has a larger magnitude than the largest of the first input.
        keeps_order_only: Whether the output depends on the order of values or on their number alone, not on how large
            they are: of codes such an operator makes what it makes of the values that they stand for.
        softmax: Whether it makes shares of exponentials, among which a value far below the others counts for nothing:
            there any large negative number stands for minus infinity.
        carries_infinity: Whether the values of the first output are values of the first input, or 0, so that a number
            that stands for infinity in the input does so in the output.
        source_axis: For an operator that changes nothing but the order of axes: where an axis comes from.
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
        """Whether it changes nothing but the order of axes."""
        return self.source_axis is not None


@dataclass(frozen=True, kw_only=True)
class ChannelTraits:
    """What becomes of the channels of the first input.

    Attributes:
        keeps_channels: Whether the output has the channels of the inputs, in the same order.
        flattens_channels: Whether it may join each channel with the axes behind: its values become neighbours.
        factor_rule: Where the channels lie behind it, if a positive factor for each may be applied on either side.
        normalizes: Where the channels lie that it normalizes and multiplies with a stored vector at input 1 (and adds
            one to, at input 2); None for an operator that does not.
    """

    keeps_channels: bool = False
    flattens_channels: bool = False
    factor_rule: FactorRule | None = None
    normalizes: ChannelLayout | None = None


@dataclass(frozen=True, kw_only=True)
class IndexTraits:
    """What it has to do with indices and shapes.

    Attributes:
        index_inputs: Inputs that are shapes, indices, counts or conditions.
        computes_indices: Whether indices and shapes are computed with it, as well as data.
        carries_indices: Whether integers that its first output has are integers of its first input: bounds of the one
            are bounds of the other.
        looks_up: Whether its second input holds indices into the first along the attribute ``axis``.
        is_layer: Whether it is a layer of a network: what it makes is no index, even where it is rounded to one later.
    """

    index_inputs: tuple[int, ...] = ()
    computes_indices: bool = False
    carries_indices: bool = False
    looks_up: bool = False
    is_layer: bool = False


@dataclass(frozen=True, kw_only=True)
class KernelTraits:
    """What kernels make of it.

    Attributes:
        codes: How TensorRT gets codes through it; None where a product behind reads float.
        fused_behind_products: Whether TensorRT computes it in the registers of a product in front of it.
        lacks_int8: Whether TensorRT for RTX 1.7.1 refuses to compute it on int8; others it computes, on the bare codes.
        lacks_uint8: Whether TensorRT for RTX 1.7.1 was seen to refuse uint8 data in it. It takes uint8 in Cast, Equal
            and Shape.
        stays_float32: Why it stays float32 although ONNX defines it for float16; empty where nothing speaks against it.
        float32_inputs: Inputs that stay float32, whatever type ONNX allows: they say how a shape changes.
    """

    codes: Codes | None = None
    fused_behind_products: bool = False
    lacks_int8: bool = False
    lacks_uint8: bool = False
    stays_float32: str = ""
    float32_inputs: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Traits(ValueTraits, ChannelTraits, IndexTraits, KernelTraits):
    """All that is known of one operator, but for how it is quantized (see :class:`~qdqtool.ops.QuantizableOp`)."""


UNKNOWN = Traits()
"""Of an operator that nothing is known of."""

MOVING = Traits(
    moves_values=True,
    keeps_sign=True,
    keeps_magnitude=True,
    carries_infinity=True,
    carries_indices=True,
    codes=Codes.MOVED,
)
"""Of an operator that only moves values, and all that follows. ``dataclasses.replace`` adds what else is known."""
