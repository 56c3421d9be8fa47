"""The record of what an operator does to the values that it reads.

A record states what other code relies on. A property that is not stated may hold too: then no code relies on it, and
code that follows a tensor stops at the operator, which is always safe.

A rule gets a node, the channel axis of its input, and the index of the model. It returns the channel axis of
the output where the node commutes with a positive factor for each channel, and None where it does not.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._span import SpanRule


def pointwise(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept every node: its operator works on each value alone and commutes with positive factors."""
    return layout


def over_space(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept windows over the axes behind the channels."""
    return layout if layout is ChannelLayout.FIRST else None


def over_axes(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept a node whose axes (an attribute, or stored at input 1) all lie behind the channels.

    Axes that are counted from the back lie nowhere where the rank is unknown.
    """
    axes = node.attribute("axes") or stored_integers(node.input(1), index.constants)
    rank = len(shape_of(node.input(0), index) or ())
    past = axes is not None and len(axes) > 0 and all((axis + rank if axis < 0 else axis) > 1 for axis in axes)
    return layout if past and layout is ChannelLayout.FIRST else None


def shape_of(value: Value | None, index: ModelIndex) -> tuple[int | str | None, ...] | None:
    """Return the shape of a tensor; None where its rank is unknown."""
    return index.types.shape(value) if value is not None else None


def stored_integers(value: Value | None, constants: Constants) -> list[int] | None:
    """Return the integers of a constant; None for any other tensor."""
    array = constants.readable(value) if value is not None else None
    return [int(entry) for entry in array.reshape(-1)] if array is not None else None


FactorRule = Callable[[NodeView, ChannelLayout, ModelIndex], ChannelLayout | None]
"""The channel axis of the output of a node, given that of its input; None where the node does not commute with positive
factors for the channels."""

AxisRule = Callable[[NodeView, int, int | None], int | None]
"""The axis of the input of a node that becomes a given axis of its output, for tensors of a rank (None if unknown);
None where the axis is unknown."""


NodeRule = Callable[[NodeView, Constants], bool]
"""Whether a node has a property that depends on its attributes and constants."""


class CodePath(enum.Enum):
    """How codes of a DQ in front of an operator reach a product behind it, which then multiplies codes.

    Measured in the layer dump of TensorRT for RTX. Behind any other operator a product multiplies floats.

    ``MOVED``: codes are moved, repeated or dropped. ``POINTWISE``: each code becomes another code in its place.
    ``SELECTED``: a reduction selects codes. ``SCALED``: the compiler multiplies the scale with one constant number.
    ``JOINED``: codes of several tensors, if all have one scale. ``PADDED``: padding with values of the tensor; padding
    with zeros only in front of a convolution, whose kernel pads.
    """

    MOVED = "moved"
    POINTWISE = "pointwise"
    SELECTED = "selected"
    SCALED = "scaled"
    JOINED = "joined"
    PADDED = "padded"


@dataclass(frozen=True, kw_only=True)
class ValueTraits:
    """Which values the outputs have, given those of the first input.

    Attributes:
        moves_values: Whether every float value of every output is a value of the first input, selected by its place or
            by the order of values. Then Q and DQ with one scale, or any other monotonic function of single values,
            may stand on either side of the operator: the result is the same.
        moves_values_if: For an operator that does this with some attributes only: whether a node has them.
        passes_values: Whether the output has the values of the first input, each in its place, maybe in another type.
            This includes Dropout, because models run in inference mode.
        keeps_sign: Whether no value of the output is negative if no value of the first input is.
        keeps_sign_of_all: Whether no value of the output is negative if no value of any input is.
        nonnegative: Whether no value of the output is ever negative.
        nonnegative_if: For an operator of which this depends on the node: the rule for it.
        keeps_magnitude: Whether no value of the output has a larger magnitude than the largest of the first input.
        bound: Largest magnitude that a value of the output has, whatever the inputs are; None where there is none.
        keeps_order_only: Whether the output depends only on the order of the values, or on the shape. Then codes give
            the same output as the values that they represent.
        softmax: Whether it is a softmax: a value far below the others has no influence, so a large negative number
            in its input represents minus infinity.
        carries_infinity: Whether every value of the first output is a value of the first input, or 0: a number that
            represents infinity in the input represents it in the output.
        random_if: For an operator that may draw random numbers, so that its output differs from run to run: whether a
            node does.
        source_axis: For an operator that only reorders axes: the rule for them.
        span: The rule for the values of the first output, given those of the inputs.
    """

    moves_values: bool = False
    moves_values_if: Callable[[NodeView], bool] | None = None
    passes_values: bool = False
    keeps_sign: bool = False
    keeps_sign_of_all: bool = False
    nonnegative: bool = False
    nonnegative_if: NodeRule | None = None
    keeps_magnitude: bool = False
    bound: float | None = None
    keeps_order_only: bool = False
    softmax: bool = False
    carries_infinity: bool = False
    random_if: NodeRule | None = None
    source_axis: AxisRule | None = None
    span: SpanRule | None = None

    @property
    def reorders_axes(self) -> bool:
        """Whether it only reorders axes, or does nothing."""
        return self.source_axis is not None


@dataclass(frozen=True, kw_only=True)
class ChannelTraits:
    """Where the channels of the first input are in the output.

    Attributes:
        keeps_channels: Whether the output has the channels of the inputs, in the same order.
        flattens_channels: Whether it may join the channel axis with those behind it: then the values of a channel are
            neighbours.
        factor_rule: For an operator that may commute with a positive factor for each channel: the rule for it.
        normalizes: For a normalization that multiplies with a vector at input 1 (and adds one at input 2): the axis of
            its channels.
    """

    keeps_channels: bool = False
    flattens_channels: bool = False
    factor_rule: FactorRule | None = None
    normalizes: ChannelLayout | None = None


@dataclass(frozen=True, kw_only=True)
class IndexTraits:
    """How it computes or uses indices and shapes.

    Attributes:
        index_inputs: Inputs that are shapes, indices, counts or conditions.
        computes_indices: Whether models use it to compute indices and shapes, besides data.
        carries_indices: Whether the integers of its first output are integers of its first input, so that the same
            bounds hold for both.
        looks_up: Whether input 1 has indices into input 0 along the attribute ``axis``. ONNX Runtime fails on an index
            beyond that axis.
        is_layer: Whether it is a layer of a network: its output is data, even where a Cast rounds it to an index later.
    """

    index_inputs: tuple[int, ...] = ()
    computes_indices: bool = False
    carries_indices: bool = False
    looks_up: bool = False
    is_layer: bool = False


@dataclass(frozen=True, kw_only=True)
class KernelTraits:
    """What kernels do with it.

    Attributes:
        codes: How codes go through it in TensorRT; None where a product behind it multiplies floats.
        fused_behind_products: Whether TensorRT computes it in the kernel of a product in front of it.
        lacks_int8: Whether TensorRT for RTX refuses to compute it on int8. It computes other operators, on the
            codes as they are.
        lacks_uint8: Whether TensorRT for RTX refuses uint8 data in it. It takes uint8 in Cast, Equal and Shape;
            operators that nobody has tried have False.
        stays_float32: Why it stays float32 although ONNX defines it for float16; empty if it need not.
        float32_inputs: Inputs that stay float32, whatever type ONNX allows: they say how a shape changes.
        multiplies_inside: Whether it multiplies matrices, or convolves, as a part of what it computes.
    """

    codes: CodePath | None = None
    fused_behind_products: bool = False
    lacks_int8: bool = False
    lacks_uint8: bool = False
    stays_float32: str = ""
    float32_inputs: frozenset[int] = frozenset()
    multiplies_inside: bool = False


@dataclass(frozen=True, kw_only=True)
class Traits(ValueTraits, ChannelTraits, IndexTraits, KernelTraits):
    """All that is known of one operator, except how it is quantized (:class:`~qdqtool.models.ops.QuantizableOp`)."""


UNKNOWN = Traits()
"""The traits of an operator of which nothing is known."""

MOVING = Traits(
    moves_values=True,
    keeps_sign=True,
    keeps_magnitude=True,
    carries_infinity=True,
    carries_indices=True,
    codes=CodePath.MOVED,
)
"""The traits of every operator that only moves values; ``dataclasses.replace`` adds the traits of one operator.
TensorRT carries codes through every such operator that was measured."""
