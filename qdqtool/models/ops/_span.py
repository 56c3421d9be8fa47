"""The range of values that a tensor can have, and how an operator changes this range: interval arithmetic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.numerics.dtypes import Array


@dataclass(frozen=True, slots=True)
class Span:
    """The range of the values of a tensor.

    Attributes:
        low: Lower bound of the values; minus infinity if unknown.
        high: Upper bound of the values; infinity if unknown.
        width: Largest difference between two values of one channel. It is less than ``high - low`` after a bias that
            shifts each channel differently, or after a function that is constant in some intervals.
        axis: The channel axis; None if ``width`` holds for any two values of the tensor.
        source: The Q or DQ whose range determines the width; None if there is none.
    """

    low: float
    high: float
    width: float = math.inf
    axis: ChannelLayout | None = None
    source: NodeView | None = None

    def __post_init__(self) -> None:
        if self.width >= self.high - self.low:
            object.__setattr__(self, "width", self.high - self.low)
            object.__setattr__(self, "axis", None)

    @property
    def most(self) -> float:
        """The largest possible magnitude of a value."""
        return max(abs(self.low), abs(self.high))

    def on(self, axis: ChannelLayout | None) -> "Span":
        """Return the span for a tensor with this channel axis (None if unknown); another axis removes the width."""
        return self if self.axis in {None, axis} else Span(self.low, self.high, source=self.source)

    def between(self, low: float, high: float) -> "Span":
        """Return the span after a function that clips values to these bounds."""
        return replace(self, low=min(max(self.low, low), high), high=max(min(self.high, high), low))

    def including(self, value: float) -> "Span":
        """Return the span with one more value, which may occur in any channel."""
        farthest = max(abs(value - self.low), abs(self.high - value), self.width)
        return replace(self, low=min(self.low, value), high=max(self.high, value), width=farthest)

    def times(self, factor: float) -> "Span":
        """Return the span after multiplication by a number of any sign."""
        low, high = sorted((_product(self.low, factor), _product(self.high, factor)))
        return replace(self, low=low, high=high, width=_product(self.width, abs(factor)))


UNBOUNDED = Span(-math.inf, math.inf)

Arrays = Callable[[int], Array | None]
"""Returns the constant at an input of the node, or None if the input is computed."""

SpanRule = Callable[[NodeView, Sequence[Span | None], Arrays], Span | None]
"""Returns the span of the first output, given the spans of the inputs, or None if it is unknown."""


def within(low: float, high: float, steepest: float = math.inf) -> SpanRule:
    """Return the rule of a function whose values are always between these bounds.

    Args:
        low: Smallest value of the function.
        high: Largest value of the function.
        steepest: Largest slope; infinity if the function combines several values.
    """

    def rule(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span:
        span = spans[0] or UNBOUNDED
        # A function of both signs keeps the sign of a value.
        least, most = (0.0 if low < 0 <= span.low else low), (0.0 if low < 0 and span.high <= 0 else high)
        return Span(least, most, _product(span.width, steepest), span.axis, span.source)

    return rule


def rising(function: Callable[[NodeView, float], float], floor: float = -math.inf, steepest: float = 1.0) -> SpanRule:
    """Return the rule of a function of single values that rises, or that falls to a minimum ``floor`` and then rises.

    Args:
        function: The function; with a floor, an upper bound of the function.
        floor: Minimum of the function, below 0; minus infinity for a function that only rises.
        steepest: Largest slope in magnitude.
    """

    def rule(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
        span = spans[0] or UNBOUNDED
        low = function(node, span.low) if floor == -math.inf else floor
        high = max(low, function(node, span.high))
        return Span(low, high, _product(span.width, steepest), span.axis, span.source)

    return rule


def of_known(combine: Callable[..., Span]) -> SpanRule:
    """Return the rule of an operator that combines all inputs. An input of unknown span makes the result unknown."""

    def rule(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
        return combine(*spans) if None not in spans else None

    return rule


def same_span(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span of the first input, for operators that make no new values."""
    return spans[0]


def union(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span of all inputs together; their values may occur in the same channel."""
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    return Span(min(span.low for span in known), max(span.high for span in known), source=_widest(known).source)


def summed_span(left: Span, right: Span) -> Span:
    """Return the span of a sum of two tensors."""
    left, right = _aligned(left, right)
    source = _widest((left, right)).source
    return Span(left.low + right.low, left.high + right.high, left.width + right.width, left.axis or right.axis, source)


def multiplied(left: Span, right: Span) -> Span:
    """Return the span of an element-wise product of two tensors."""
    left, right = _aligned(left, right)
    corners = [_product(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    width = _product(left.most, right.width) + _product(right.most, left.width)
    return Span(min(corners), max(corners), width, left.axis or right.axis, left.source or right.source)


def constant_span(array: Array) -> Span | None:
    """Return the span of a constant, or None if it has no elements, is not numeric, or is not finite.

    A constant with one number for each channel has width 0: added to a tensor, it shifts each channel as a whole.
    """
    if not array.size or array.dtype.kind not in "fiuV":
        return None
    with np.errstate(all="ignore"):
        low, high = float(np.min(array)), float(np.max(array))
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    axis = _channels(array.shape)
    return Span(low, high) if axis is None else Span(low, high, 0.0, axis)


def _channels(shape: tuple[int, ...]) -> ChannelLayout | None:
    """Return the channel axis of a broadcast constant, or None if its values also differ along another axis."""
    if shape and shape[-1] > 1 and all(extent == 1 for extent in shape[:-1]):
        return ChannelLayout.LAST
    # [C, 1, 1] and [1, C, 1, 1] are broadcast to [N, C, H, W].
    spatial = len(shape) > 2 and all(extent == 1 for extent in (*shape[:-3], *shape[-2:]))
    return ChannelLayout.FIRST if spatial and len(shape) in {3, 4} and shape[-3] > 1 else None


def _aligned(left: Span, right: Span) -> tuple[Span, Span]:
    """Return the spans of two inputs of an element-wise operation, both with the same channel axis (or none)."""
    axis = left.axis or right.axis
    # If both tensors have channels on different axes, the right one loses its axis and width.
    return left.on(axis), right.on(axis)


def _widest(spans: Sequence[Span]) -> Span:
    return max(spans, key=lambda span: span.width)


def _product(left: float, right: float) -> float:
    # Infinity times zero is unknown in general; here an unbounded value times exactly 0 is 0.
    return 0.0 if left == 0 or right == 0 else left * right
