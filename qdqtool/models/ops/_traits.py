"""The traits of an operator: what it does to the values that it reads.

Traits state what other code relies on. A trait that is not set may be true in fact, but no code relies on it. Code that
follows a tensor then stops at the operator, which is always safe.

A factor rule gets a node, the channel axis of its input, and the index of the model. It returns the channel axis of the
output if the node commutes with a positive factor for each channel, and None otherwise.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._span import SpanRule


def pointwise(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept every node, for operators that process each value separately and commute with positive factors."""
    return layout


def over_space(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept a node with windows over the axes after the channel axis."""
    return layout if layout is ChannelLayout.FIRST else None


def over_axes(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Accept a node whose axes (an attribute, or stored at input 1) are all after the channel axis.

    If the rank is unknown, axes counted from the back are not accepted.
    """
    axes = node.attribute("axes") or stored_integers(node.input(1), index.constants)
    rank = len(shape_of(node.input(0), index) or ())
    past = axes is not None and len(axes) > 0 and all((axis + rank if axis < 0 else axis) > 1 for axis in axes)
    return layout if past and layout is ChannelLayout.FIRST else None


def shape_of(value: Value | None, index: ModelIndex) -> tuple[int | str | None, ...] | None:
    """Return the shape of a tensor, or None if its rank is unknown."""
    return index.types.shape(value) if value is not None else None


def stored_integers(value: Value | None, constants: Constants) -> list[int] | None:
    """Return the integers of a constant, or None for any other tensor."""
    array = constants.readable(value) if value is not None else None
    return [int(entry) for entry in array.reshape(-1)] if array is not None else None


FactorRule = Callable[[NodeView, ChannelLayout, ModelIndex], ChannelLayout | None]
"""Returns the channel axis of the output of a node, given the axis of the input. None if the node does not commute with
positive channel factors."""

AxisRule = Callable[[NodeView, int, int | None], int | None]
"""Returns the input axis of a node that becomes a given output axis. It also gets the rank of the tensors (None if
unknown). None if the axis is unknown."""


NodeRule = Callable[[NodeView, Constants], bool]
"""Returns whether a node has a property that depends on its attributes and constants."""


class CodePath(enum.Enum):
    """How an operator passes codes from a DQ to a weighted operator, which then multiplies codes.

    Measured in the layer dump of TensorRT for RTX. After any other operator, a weighted operator multiplies floats.

    ``MOVED``: it moves, repeats or drops codes. ``POINTWISE``: it maps each code to another code. ``SELECTED``: a
    reduction selects codes. ``SCALED``: the compiler multiplies the scale by one constant. ``JOINED``: it joins codes
    of several tensors with equal scales. ``PADDED``: it pads with values of the tensor, or (only before a convolution,
    whose kernel pads) with zeros.
    """

    MOVED = "moved"
    POINTWISE = "pointwise"
    SELECTED = "selected"
    SCALED = "scaled"
    JOINED = "joined"
    PADDED = "padded"


@dataclass(frozen=True, kw_only=True)
class ValueTraits:
    """Properties of the values of the outputs, given the values of the first input.

    Attributes:
        moves_values: Whether every float value of every output is a value of the first input, selected by position or
            by order. Then Q and DQ with one scale (and every monotonic function of single values) give the same result
            before and after the operator.
        moves_values_if: For an operator that only moves values with certain attributes: whether a node has them.
        passes_values: Whether the output has the values of the first input at the same positions; the type may change.
            This includes Dropout, because models run in inference mode.
        keeps_sign: Whether no output value is negative if no value of the first input is negative.
        keeps_sign_of_all: Whether no output value is negative if no value of any input is negative.
        nonnegative: Whether no output value is ever negative.
        nonnegative_if: For an operator whose output is nonnegative only in some nodes: the rule for a node.
        keeps_magnitude: Whether no output value has a larger magnitude than the largest of the first input.
        bound: Largest possible magnitude of an output value for any input; None if there is no limit.
        keeps_order_only: Whether the output depends only on the order of the values, or only on the shape. Then codes
            give the same output as the values that they represent.
        softmax: Whether it is a softmax: a value far below the others has no influence, so a large negative input value
            represents minus infinity.
        carries_infinity: Whether every value of the first output is a value of the first input, or 0. Then a number
            that represents infinity in the input also represents infinity in the output.
        random_if: For an operator that may draw random numbers, so that outputs differ between runs: whether a node
            does so.
        source_axis: For an operator that only reorders axes: the rule for the axes.
        span: The rule for the range of the values of the first output, given the ranges of the inputs.
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
        """Whether the operator only reorders axes, or does nothing."""
        return self.source_axis is not None


@dataclass(frozen=True, kw_only=True)
class ChannelTraits:
    """What the operator does to the channels of its first input.

    Attributes:
        keeps_channels: Whether the output has the channels of the inputs, in the same order.
        flattens_channels: Whether it may join the channel axis with the axes after it; the values of a channel are then
            adjacent.
        factor_rule: For an operator that may commute with a positive factor for each channel: the rule.
        normalizes: For a normalization that multiplies by a vector at input 1 (and adds a vector at input 2): its
            channel axis.
    """

    keeps_channels: bool = False
    flattens_channels: bool = False
    factor_rule: FactorRule | None = None
    normalizes: ChannelLayout | None = None


@dataclass(frozen=True, kw_only=True)
class IndexTraits:
    """How the operator computes or uses indices and shapes.

    Attributes:
        index_inputs: Inputs that are shapes, indices, counts or conditions.
        computes_indices: Whether models use the operator to compute indices and shapes, not only data.
        carries_indices: Whether the integers of the first output are integers of the first input, so that both have the
            same bounds.
        looks_up: Whether input 1 contains indices into input 0 along the attribute ``axis``. ONNX Runtime fails for an
            index outside that axis.
        is_layer: Whether it is a layer of a network: its output is data, even if a Cast turns it into an index later.
    """

    index_inputs: tuple[int, ...] = ()
    computes_indices: bool = False
    carries_indices: bool = False
    looks_up: bool = False
    is_layer: bool = False


@dataclass(frozen=True, kw_only=True)
class KernelTraits:
    """How kernels process the operator.

    Attributes:
        codes: How codes pass through the operator in TensorRT; None if they do not reach a weighted operator.
        fused_behind_products: Whether TensorRT computes it in the kernel of a weighted operator before it.
        lacks_int8: Whether TensorRT for RTX refuses to compute it on int8. If False, it computes directly on the codes.
        lacks_uint8: Whether TensorRT for RTX refuses uint8 data as its input. Cast, Equal and Shape accept uint8;
            untested operators have False.
        stays_float32: Why it stays float32 although ONNX defines it for float16; empty if it may be float16.
        float32_inputs: Inputs that stay float32 whatever type ONNX allows, because they define a change of shape.
        passes_casts: Whether TensorRT for RTX cancels a Cast before it with the reverse Cast after it. Other operators
            that move values then compute in the other type, and pass no codes.
        multiplies_inside: Whether a matrix product or convolution is a part of its computation.
        no_kernel: Output types (``TensorProto.DataType``) in which TensorRT for RTX refuses it on any GPU. Measured:
            ``docs/developers/half_precision.md``.
        no_half_with: The optional input with which TensorRT for RTX refuses it in half precision, if there is one.
    """

    codes: CodePath | None = None
    fused_behind_products: bool = False
    lacks_int8: bool = False
    lacks_uint8: bool = False
    stays_float32: str = ""
    float32_inputs: frozenset[int] = frozenset()
    passes_casts: bool = False
    multiplies_inside: bool = False
    no_kernel: frozenset[int] = frozenset()
    no_half_with: int | None = None


@dataclass(frozen=True, kw_only=True)
class Traits(ValueTraits, ChannelTraits, IndexTraits, KernelTraits):
    """All known traits of an operator. :class:`~qdqtool.models.ops.QuantizableOp` describes how it is quantized."""


NO_BFLOAT16 = frozenset({int(TensorProto.BFLOAT16)})
NO_HALF = NO_BFLOAT16 | {int(TensorProto.FLOAT16)}
"""Values of ``no_kernel``."""

UNKNOWN = Traits()
"""The traits of an unknown operator."""

MOVING = Traits(
    moves_values=True,
    keeps_sign=True,
    keeps_magnitude=True,
    carries_infinity=True,
    carries_indices=True,
    codes=CodePath.MOVED,
)
"""The traits of operators that only move values; ``dataclasses.replace`` adds the traits of a single operator.
TensorRT passes codes through every such operator that was measured."""
