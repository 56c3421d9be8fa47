"""Read a sample of the codes of a weight: stored codes, or the codes that a Q makes of a float weight."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ModelError
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import format_of
from qdqtool.linting.rules.support.words import places as places_of
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.io.tensors import element_count, read_array
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat

Reals = npt.NDArray[np.float64]

MOST_UNPACKED = 1 << 20
"""Larger weights (in elements) with codes of less than a byte are not read, because all codes would be unpacked."""
WIDEST = 16
"""Largest number of bits of weight codes. int32 codes are a bias, whose scale follows from those of the product."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WeightCodes:
    """Some codes of a weight.

    Attributes:
        format: The number format of the codes.
        codes: The codes. If a Q computes them, they are not rounded.
        values: The float values, if a Q computes the codes; None for stored codes.
        zero_point: The zero point of each code, or one for all codes.
        scale: All scales of the weight; None if they are not constant.
        groups: Number of groups (values with the same scale) in the sample: the number of scales times the fraction of
            the weight that was read.
        is_whole: Whether every code of the weight was read.
    """

    format: NumberFormat
    codes: Reals
    values: Reals | None
    zero_point: Reals
    scale: Reals | None
    groups: float
    is_whole: bool

    @property
    def is_symmetric(self) -> bool:
        """Whether the format is signed and every zero point is 0."""
        return self.format.low < 0 and not self.zero_point.any()

    @property
    def clipped(self) -> float:
        """The fraction of the codes beyond the range. Stored codes are never beyond it."""
        # Values up to half a step beyond the last code round to it and are not clipped. The last two codes of e4m3 are
        # 416 and 448, a step of high / 14; high / 32 is a little less than half of this step.
        half = 0.5 if self.format.kind == "integer" else self.format.high / 32
        beyond = (self.codes < self.format.low - half) | (self.codes > self.format.high + half)
        return float(np.mean(beyond))

    @property
    def lost(self) -> float:
        """The relative clipping error, from 0 to 1: the norm of the clipped parts divided by the norm of the codes."""
        greatest = np.max(np.abs(self.codes))
        if not greatest:
            return 0.0
        over = self.codes - np.clip(self.codes, self.format.low, self.format.high)
        # Norms are relative to the greatest code: a scale of 0 makes codes of the greatest float64. Its square
        # overflows.
        return float(np.linalg.norm(over / greatest) / np.linalg.norm(self.codes / greatest))

    @property
    def used(self) -> float:
        """The greatest magnitude among the codes, as a fraction of the greatest code of the format."""
        return float(np.max(np.abs(self.codes))) / self.format.high

    @property
    def distances(self) -> Reals:
        """The magnitudes of the codes minus their zero points, without zeros."""
        distance = np.abs(self.codes - self.zero_point)
        return distance[distance > 0]

    @property
    def at_the_ends(self) -> float:
        """The fraction of codes at either end of the format, except those that a scale from the maximum puts there.

        Codes that stand for 0 are not counted, since weights may be pruned. A scale from the greatest value puts one
        code of each group at an end, or one at each end with a zero point.
        """
        # Symmetric int8 codes end at -127, but some tools also write -128.
        low = -self.format.high if self.is_symmetric else self.format.low
        at_end = (self.codes <= low) | (self.codes >= self.format.high)
        # A zero point may be at an end too, for example in a mask whose values have one sign.
        ends = int(np.count_nonzero(at_end & (self.codes != self.zero_point)))
        explained = self.groups * (1 if self.is_symmetric else 2)
        others = self.distances.size - explained
        return float(max(ends - explained, 0) / others) if others > 0 else 0.0

    @property
    def levels(self) -> int:
        """The number of different magnitudes among the codes that do not stand for 0."""
        return int(np.unique(self.distances).size)


def weight_codes(context: RuleContext, entry: QdqNode) -> WeightCodes | None:
    """Return a sample of the codes of the weight that a Q or DQ reads; None if there is no readable weight.

    Return None also for large weights with codes of less than a byte, and if the scale does not fit the weight.
    """
    stored = entry.data.initializer if entry.data is not None else None
    fmt = format_of(entry.quantized_type)
    if stored is None or fmt is None or fmt.bits > WIDEST:
        return None
    if not entry.is_quantize and fmt.bits < 8 and element_count(stored) > MOST_UNPACKED:
        return None
    try:
        weight = read_array(context.model, stored)
    except ModelError:
        # The rule about unreadable parameters, or load_model, reports this.
        return None
    places = places_of(weight.size)
    values = np.nan_to_num(as_reals(weight.reshape(-1)[places]))
    scale, zero = context.array(entry.scale), _zero_points(context, entry, weight.shape, places)
    if zero is None or not values.size:
        return None
    codes = values
    if entry.is_quantize:
        spread = _spread(context, entry, scale, weight.shape, places)
        if spread is None:
            return None
        with np.errstate(all="ignore"):
            codes = np.nan_to_num(values / spread + zero)
    return WeightCodes(
        format=fmt,
        codes=codes,
        values=values if entry.is_quantize else None,
        zero_point=zero,
        scale=as_reals(scale) if scale is not None else None,
        groups=(scale.size if scale is not None else 1) * values.size / weight.size,
        is_whole=values.size == weight.size or not np.any(weight),
    )


def _zero_points(
    context: RuleContext, entry: QdqNode, shape: tuple[int, ...], places: npt.NDArray[np.int64]
) -> Reals | None:
    """Return the zero point at each of ``places``, or one for all; None if it is unknown."""
    zero = context.array(entry.zero_point)
    if entry.zero_point is None or (zero is not None and not np.any(as_reals(zero))):
        return np.zeros(1)
    return _spread(context, entry, zero, shape, places)


def _spread(
    context: RuleContext, entry: QdqNode, given: Array | None, shape: tuple[int, ...], places: npt.NDArray[np.int64]
) -> Reals | None:
    """Return the scale or zero point at each of ``places`` of the flat weight; None if its shape does not fit."""
    axis = context.axis(entry)
    if given is None:
        return None
    if entry.granularity == PerTensor():
        # The scale decides the granularity: the zero point may still have another number of elements.
        return np.broadcast_to(as_reals(given).reshape(()), places.shape) if given.size == 1 else None
    if axis is None:
        return None
    at = list(np.unravel_index(places, shape))
    if isinstance(entry.granularity, PerAxis) and given.shape == (shape[axis],):
        return as_reals(given)[at[axis]]
    if isinstance(entry.granularity, Blocked):
        size = entry.granularity.block_size
        at[axis] = at[axis] // size
        if given.shape == (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :]):
            return as_reals(given)[tuple(at)]
    return None
