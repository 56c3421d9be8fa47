"""Describe the scales of weights for reports: the smallest and largest by channel, and channels of zeros."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, normalize_axis
from qdqtool.numerics.groups import reduce_groups
from qdqtool.quantization.report import WeightScales

MOST_POINTS, FEWEST_POINTS = 256, 32
"""Largest number of points of one weight, and the number of points that every weight may have."""
ALL_POINTS = 1 << 15
"""If all weights together have more points than this, each gets fewer: the report of a large model stays small."""


def weight_scales(plan: QuantPlan, index: ModelIndex, dead: Collection[tuple[str, str]]) -> tuple[WeightScales, ...]:
    """Describe the weights of a plan that have more than one scale, in the order of the plan.

    Args:
        plan: The plan.
        index: The index of the model that the plan was made for.
        dead: Scope and name of the weights that may have scales for zeros only.
    """
    several = [each for each in plan if each.params.scale.size > 1]
    points = max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(len(several), 1)))
    return tuple(_described(each, index, points, dead) for each in several)


def _described(placement: Placement, index: ModelIndex, points: int, dead: Collection[tuple[str, str]]) -> WeightScales:
    slot, scheme = placement.slot, placement.params.scheme
    scale = np.abs(placement.params.scale.astype(FLOAT64))
    if (display(slot.scope), slot.tensor) in dead:
        weights = index.constant(index.value(slot))
        assert weights is not None
        largest = reduce_groups(np.abs(weights.astype(np.float32)), scheme.granularity, np.maximum)
        scale = np.where(largest == 0, np.nan, scale)
    axis = _channel_axis(scheme.granularity, scale.shape)
    found = by_channel(scale, axis if scale.ndim > 1 else 0, points)
    return WeightScales(
        tensor=slot.tensor,
        graph=display(slot.scope),
        format=scheme.format.name,
        axis=axis,
        channels=found.channels,
        grouped=found.grouped,
        smallest=_text(found.smallest),
        largest="" if np.array_equal(found.smallest, found.largest) else _text(found.largest),
        dead=found.dead,
    )


@dataclass(frozen=True, slots=True, eq=False)
class ChannelScales:
    """Scales by channel.

    Attributes:
        channels: Number of channels.
        grouped: Number of neighboring channels for each entry of ``smallest`` and ``largest``.
        smallest: The smallest scale of each group of channels, float64; 0 if a channel of the group has no scale.
        largest: The largest scale of each group; 0 if no channel of the group has a scale.
        dead: Number of channels without a scale.
    """

    channels: int
    grouped: int
    smallest: Array
    largest: Array
    dead: int


def by_channel(scale: Array, axis: int, points: int) -> ChannelScales:
    """Return the smallest and the largest scale of each channel, or of groups of neighboring channels.

    Args:
        scale: float64, greater than 0; NaN for a scale of zeros only.
        axis: The axis of the channels.
        points: Largest number of points to return.
    """
    rows = np.moveaxis(scale, axis, 0).reshape(scale.shape[axis], -1)
    grouped = -(-len(rows) // points)
    starts = np.arange(0, len(rows), grouped)
    dead = np.isnan(rows).all(axis=1)
    low = np.where(dead, 0.0, np.where(np.isnan(rows), np.inf, rows).min(axis=1))
    high = np.where(np.isnan(rows), 0.0, rows).max(axis=1)
    return ChannelScales(
        channels=len(rows),
        grouped=grouped,
        smallest=np.minimum.reduceat(low, starts),
        largest=np.maximum.reduceat(high, starts),
        dead=int(dead.sum()),
    )


def _channel_axis(granularity: Granularity, shape: Sequence[int]) -> int:
    match granularity:
        case PerAxis(axis):
            return axis
        case Blocked(axis, _) if len(shape) > 1:
            blocked = normalize_axis(axis, len(shape))
            others = [each for each in range(len(shape)) if each != blocked]
            return max(others, key=lambda each: shape[each])
        case _:
            return 0


def _text(values: Array) -> str:
    return " ".join(f"{value:.4g}" for value in values.tolist())
