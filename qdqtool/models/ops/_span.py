"""Which values a tensor can have, and how one operator changes that: interval arithmetic."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.numerics.dtypes import Array


@dataclass(frozen=True, slots=True)
class Span:
    """The values of a tensor.

    Attributes:
        low: No value is below this; minus infinity where nothing is known.
        high: No value is above this.
        width: No two values of one channel are farther apart. It is less than ``high - low`` where the channels lie
            apart, as behind a bias, and behind a function that is flat in places.
        axis: Where the channels are; None where no two values of the whole tensor are farther apart.
        source: The Q or DQ whose range decides the width most; None where none does.
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
        """The largest magnitude that a value can have."""
        return max(abs(self.low), abs(self.high))

    def on(self, axis: ChannelLayout | None) -> "Span":
        """Return the span of a tensor whose channels are on this axis; None for an unknown one."""
        return self if self.axis in {None, axis} else Span(self.low, self.high, source=self.source)

    def between(self, low: float, high: float) -> "Span":
        """Return the values behind a function that clips to these bounds."""
        return replace(self, low=min(max(self.low, low), high), high=max(min(self.high, high), low))

    def including(self, value: float) -> "Span":
        """Return the span with one more value, which any channel may have beside others."""
        farthest = max(abs(value - self.low), abs(self.high - value), self.width)
        return replace(self, low=min(self.low, value), high=max(self.high, value), width=farthest)

    def times(self, factor: float) -> "Span":
        """Return the values multiplied with a number of any sign."""
        low, high = sorted((_product(self.low, factor), _product(self.high, factor)))
        return replace(self, low=low, high=high, width=_product(self.width, abs(factor)))


Arrays = Callable[[int], Array | None]
"""The constant at an input of the node; None where it is computed."""

SpanRule = Callable[[NodeView, Sequence[Span | None], Arrays], Span | None]
"""The values of the first output, given those of each input; None where nothing is known."""


def within(low: float, high: float, steepest: float = math.inf) -> SpanRule:
    """Return the rule of a function with values between these, whatever it reads.

    Args:
        low: Its smallest value.
        high: Its greatest value.
        steepest: The most that it rises for a step of 1; infinity for a function of more than single values.
    """

    def rule(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span:
        span = spans[0]
        if span is None:
            return Span(low, high)
        return Span(low, high, _product(span.width, steepest), span.axis, span.source)

    return rule


def rising(function: Callable[[NodeView, float], float], floor: float = -math.inf, steepest: float = 1.0) -> SpanRule:
    """Return the rule of a function of single values that rises, or falls to its smallest value ``floor`` and rises.

    Args:
        function: The function, or a bound above it where it has a floor.
        floor: Its smallest value, which is below 0; minus infinity for a function that only rises.
        steepest: The most that it rises or falls for a step of 1.
    """

    def rule(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
        span = spans[0]
        if span is None:
            return None
        low = function(node, span.low) if floor == -math.inf else floor
        high = max(low, function(node, span.high))
        return Span(low, high, _product(span.width, steepest), span.axis, span.source)

    return rule


def of_known(combine: Callable[..., Span]) -> SpanRule:
    """Return the rule of a function of the values of all inputs; nothing is known where those of one are not."""

    def rule(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
        return combine(*spans) if None not in spans else None

    return rule


def same_span(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the values of the first input: no other ones are made."""
    return spans[0]


def union(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the values of all inputs, which may stand in one channel."""
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    return Span(min(span.low for span in known), max(span.high for span in known), source=_widest(known).source)


def summed_span(left: Span, right: Span) -> Span:
    """Return the values of a sum."""
    left, right = _aligned(left, right)
    source = _widest((left, right)).source
    return Span(left.low + right.low, left.high + right.high, left.width + right.width, left.axis or right.axis, source)


def multiplied(left: Span, right: Span) -> Span:
    """Return the values of a product of single values."""
    left, right = _aligned(left, right)
    corners = [_product(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    width = _product(left.most, right.width) + _product(right.most, left.width)
    return Span(min(corners), max(corners), width, left.axis or right.axis, left.source or right.source)


def constant_span(array: Array) -> Span | None:
    """Return the values of a constant; None for one without elements, of no numbers, or not finite.

    A constant with a number for each channel has no width: whatever it is added to, the channel moves as a whole.
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
    """Return where a broadcast constant has its channels; None if its values also differ along another axis."""
    if shape and shape[-1] > 1 and all(extent == 1 for extent in shape[:-1]):
        return ChannelLayout.LAST
    # [C, 1, 1] is broadcast to [N, C, H, W], and [1, C, 1, 1] too.
    spatial = len(shape) > 2 and all(extent == 1 for extent in (*shape[:-3], *shape[-2:]))
    return ChannelLayout.FIRST if spatial and len(shape) in {3, 4} and shape[-3] > 1 else None


def _aligned(left: Span, right: Span) -> tuple[Span, Span]:
    """Return the spans of two tensors that are combined element by element, with one channel axis or none."""
    axis = left.axis or right.axis
    # Where both have channels, on different axes, the right one loses them.
    return left.on(axis), right.on(axis)


def _widest(spans: Sequence[Span]) -> Span:
    return max(spans, key=lambda span: span.width)


def _product(left: float, right: float) -> float:
    # Infinity times zero is not known; an unbounded value times exactly 0 is 0.
    return 0.0 if left == 0 or right == 0 else left * right
