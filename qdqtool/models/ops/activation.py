"""Activation functions of single values."""

import math
from collections.abc import Sequence

import numpy as np

from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._span import UNBOUNDED, Arrays, Span, constant_span, rising, within
from qdqtool.models.ops._traits import NO_BFLOAT16, NO_HALF, Traits, pointwise


def _constant_slope(node: NodeView, layout: ChannelLayout, index: ModelIndex) -> ChannelLayout | None:
    """Return the same layout if the slope is constant: PRelu then commutes with positive factors, as LeakyRelu does."""
    slope = node.input(1)
    return layout if slope is not None and index.constants.is_constant(slope) else None


def _starts_at_zero(node: NodeView, constants: Constants) -> bool:
    """Return whether the lower bound of a Clip is a constant that is not negative."""
    bound = node.input(1)
    if node.is_parametric:
        return False
    if bound is None:
        # Below opset 11 the bound is an attribute.
        return float(node.attribute("min", -1.0)) >= 0
    found = constants.array(bound) if constants.is_constant(bound) else None
    return found is not None and bool((found.astype("float64") >= 0).all())


def _clipped(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span after clipping to the bounds, which are attributes below opset 11."""
    span = spans[0]
    bounds = [node.attribute(name) for name in ("min", "max")]
    for index in (1, 2):
        given = arrays(index) if node.input_name(index) else None
        if node.input_name(index) and given is None:
            return None
        if given is not None and given.size == 1:
            bounds[index - 1] = float(np.asarray(given, np.float64).item())
    low, high = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    return (span or UNBOUNDED).between(low, high) if low <= high else None


def _sloped(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span after negative values are multiplied by a slope, or by a slope for each channel."""
    span = spans[0]
    slopes = arrays(1) if node.input_name(1) else np.float64(node.attribute("alpha", 0.01))
    if span is None or slopes is None or not np.size(slopes):
        return None
    negative = [
        slope * end
        for slope in (float(np.min(slopes)), float(np.max(slopes)))
        for end in (span.low, min(span.high, 0.0))
    ]
    ends = (negative if span.low < 0 else []) + ([max(span.low, 0.0), span.high] if span.high > 0 else [])
    # Slopes that differ within a channel, or along another axis, increase the width of a channel.
    given = constant_span(np.asarray(slopes))
    fits = np.size(slopes) == 1 or (given is not None and given.axis is not None and given.axis is span.axis)
    width = span.width * max(1.0, float(np.max(np.abs(slopes)))) if fits else math.inf
    return Span(min(ends), max(ends), width, span.axis, span.source)


def _elu(node: NodeView, value: float) -> float:
    return value if value > 0 else float(node.attribute("alpha", 1.0)) * math.expm1(value)


def _elu_span(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    alpha = float(node.attribute("alpha", 1.0))
    return rising(_elu, steepest=max(1.0, alpha))(node, spans, arrays) if alpha >= 0 else None


def _relu(node: NodeView, value: float) -> float:
    return max(value, 0.0)


def _softplus(node: NodeView, value: float) -> float:
    return value if value > 30 else math.log1p(math.exp(value))


TRAITS = {
    "Clip": Traits(span=_clipped, keeps_channels=True, nonnegative_if=_starts_at_zero, fused_behind_products=True),
    "Celu": Traits(no_kernel=NO_HALF),
    "Elu": Traits(span=_elu_span, keeps_channels=True, lacks_int8=True),
    "Erf": Traits(span=within(-1, 1, 1.13), bound=1.0, keeps_channels=True),
    "Gelu": Traits(span=rising(_relu, -0.1701, 1.13), keeps_channels=True, lacks_int8=True),
    "HardSigmoid": Traits(span=within(0, 1), nonnegative=True, bound=1.0, keeps_channels=True),
    "HardSwish": Traits(span=rising(_relu, -0.3751, 1.5), keeps_channels=True, no_kernel=NO_BFLOAT16),
    "LeakyRelu": Traits(span=_sloped, keeps_channels=True, factor_rule=pointwise, fused_behind_products=True),
    "Mish": Traits(no_kernel=NO_BFLOAT16),
    "PRelu": Traits(span=_sloped, keeps_channels=True, factor_rule=_constant_slope),
    "Relu": Traits(
        span=rising(_relu),
        nonnegative=True,
        keeps_magnitude=True,
        keeps_channels=True,
        factor_rule=pointwise,
        fused_behind_products=True,
    ),
    "Selu": Traits(lacks_int8=True),
    "Sigmoid": Traits(
        span=within(0, 1, 0.25), nonnegative=True, bound=1.0, keeps_channels=True, is_layer=True, lacks_int8=True
    ),
    "Softplus": Traits(span=rising(_softplus), nonnegative=True, lacks_int8=True),
    "Swish": Traits(keeps_channels=True),
    "Tanh": Traits(span=within(-1, 1, 1), bound=1.0, keeps_channels=True, is_layer=True, lacks_int8=True),
}
