"""Normalizations, with statistics of the data or stored statistics."""

from collections.abc import Sequence

import numpy as np

from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops._product import ChannelLayout
from qdqtool.models.ops._span import Arrays, Span, constant_span, multiplied, summed_span
from qdqtool.models.ops._traits import NO_BFLOAT16, NO_HALF, Traits


def _batch_normalized(node: NodeView, spans: Sequence[Span | None], arrays: Arrays) -> Span | None:
    """Return the span after each channel is multiplied by a factor and shifted."""
    given = [arrays(index) for index in range(1, 5)]
    # In training mode, the statistics are computed from the input.
    if (
        spans[0] is None
        or node.attribute("training_mode", 0)
        or any(array is None or not array.size for array in given)
    ):
        return None
    factor, bias, mean, variance = (np.asarray(array, np.float64).reshape(-1) for array in given)
    # Rule QS013 reports parameters of different lengths.
    if len({factor.size, bias.size, mean.size, variance.size}) > 1:
        return None
    with np.errstate(all="ignore"):
        factor = factor / np.sqrt(variance + node.attribute("epsilon", 1e-5))
    factors, shifts = (constant_span(each.reshape(-1, 1, 1)) for each in (factor, bias - mean * factor))
    return summed_span(multiplied(spans[0].on(ChannelLayout.FIRST), factors), shifts) if factors and shifts else None


TRAITS = {
    "BatchNormalization": Traits(
        span=_batch_normalized,
        keeps_channels=True,
        normalizes=ChannelLayout.FIRST,
        is_layer=True,
        fused_behind_products=True,
    ),
    "GroupNormalization": Traits(is_layer=True),
    "InstanceNormalization": Traits(keeps_channels=True, normalizes=ChannelLayout.FIRST, is_layer=True),
    "LayerNormalization": Traits(keeps_channels=True, normalizes=ChannelLayout.LAST, is_layer=True),
    "LpNormalization": Traits(lacks_int8=True, no_kernel=NO_BFLOAT16),
    "MeanVarianceNormalization": Traits(no_kernel=NO_HALF),
    "RMSNormalization": Traits(normalizes=ChannelLayout.LAST, is_layer=True),
}
