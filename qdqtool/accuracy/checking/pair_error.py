"""Measure the error of a Q on its own input, and find the facts that explain it.

A scale that does not fit is valid in ONNX, so neither our own core nor the constants of the DQ can show it. The values
that the Q reads show it: a far too large scale makes every value 0, and a far too small scale clips every value. In
both cases the error is as large as the values.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, ImposedBounds
from qdqtool.models.running.accumulated_error import ratio_db
from qdqtool.models.running.own_nodes import granularity_of
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.derive import excess_noise
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Granularity, PerAxis, expand, normalize_axis
from qdqtool.numerics.noise import decibels
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.rounding import step_widths

MASK = -5e3
"""Values up to this one represent minus infinity before a Softmax, if the tensor has other values too. Networks add
-10000, -1e9 or the smallest float16 or float32 to scores, and a positive score makes -10000 larger. Such values are
left out: one of them would be the whole signal."""

MAX_TENSORS = 64
"""Largest number of tensors that the search for a Softmax visits."""

LEAST_DB = {2: 0.25, 4: 3.0, 6: 3.0}
"""Lowest SQNR in dB of a pair that fits its tensor, by the bits of the format. If the largest of 3,000 normal values is
at the end of the range, int2 gives 1 dB and int4 gives 16 dB."""

LEAST_DB_OF_8_BITS = 6.0
"""Lowest SQNR in dB for formats of 8 or more bits. In models that are well made, no pair on real data was below 15.7
dB, and nearly all are above 25. A scale that is 1000 times too large or too small gives 0 dB in any integer format."""

MOST = 0.5

MOST_EXCESS_DB = 3.0
"""Largest :func:`qdqtool.numerics.derive.excess_noise` of a weight of :data:`MANY` values, in dB. In weights that were
well made by eight tools, it was up to 2.1 dB (docs/developers/measurements.md)."""

MOST_EXCESS_DB_OF_GROUP = 6.0
"""The same for a channel, a block or few values. It was up to 4.8 dB, the most that rounding to integers can give."""

MANY = 16
"""Fewer values may all be half a step from their codes, which is 4.8 dB."""

COUNTED_BITS = 8
"""Largest number of bits for which codes are counted."""

MIN_CHANNEL_SHARE = 1e-4
"""A channel is judged by itself if its power is at least this share of the mean power of the channels. Dead channels of
trained networks are at 1e-8 and below, and their scales do not matter."""


@dataclass(slots=True, eq=False)
class PairError:
    """The error of one Q over all samples: its input against the values that a DQ with the same constants gives.

    Attributes:
        entry: The Q.
        fmt: The quantized format.
        bounds: Bounds that the Q imposes in place of a Relu or Clip that a quantizer removed. The values are clipped to
            these bounds before they are compared.
        is_masked: Whether values up to :data:`MASK` are left out.
        is_weight: Whether the scale is compared with one that just holds the values, as for weights.
        elements: Values that were compared; NaN, infinities and masks are left out.
        nans: Values that are NaN.
        clipped: Values outside the range of the format.
        clip_noise: ``sum((x - y)**2)`` of these.
        vanished: Values other than 0 that became 0.
        low: Smallest value of each channel, shape ``[channels]``, if the scale is per-axis; else of all, shape ``[1]``.
        high: Largest value, in the shape of ``low``.
        signal: ``sum(x**2)``, in the shape of ``low``.
        noise: ``sum((x - y)**2)``, in the shape of ``low``.
        scale: The scale, in the shape of ``low``; the largest one where scales belong to blocks.
        is_symmetric: Whether the zero point represents 0 in the middle of the range.
        codes: Number of elements with each code, where the format has at most :data:`COUNTED_BITS` bits.
        excess: In words, by how much the error exceeds that of scales that just hold the values; empty within limits.
    """

    entry: QdqNode
    fmt: NumberFormat
    bounds: ImposedBounds = NO_BOUNDS
    is_masked: bool = False
    is_weight: bool = False
    elements: int = 0
    nans: int = 0
    clipped: int = 0
    clip_noise: float = 0.0
    vanished: int = 0
    low: Array = field(default_factory=lambda: np.full(1, np.inf))
    high: Array = field(default_factory=lambda: np.full(1, -np.inf))
    signal: Array = field(default_factory=lambda: np.zeros(1, FLOAT64))
    noise: Array = field(default_factory=lambda: np.zeros(1, FLOAT64))
    scale: Array = field(default_factory=lambda: np.zeros(1, FLOAT64))
    is_symmetric: bool = True
    codes: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    excess: str = ""

    def add(self, x: Array, codes: Array, scale: Array, zero_point: Array | None) -> None:
        """Count the values that the Q reads, and the codes of the same shape that it makes of them."""
        granularity = granularity_of(self.entry, scale)
        made = codes.astype(self.fmt.dtype, copy=False)
        y = dequantize(made, scale, granularity, zero_point, output_dtype=FLOAT32)
        # float32 suffices for the difference of two float32 numbers; large weights would take much memory in float64.
        work = FLOAT32 if x.dtype.itemsize <= FLOAT32.itemsize else FLOAT64
        values = np.clip(x.astype(work, copy=False), work.type(self.bounds.low), work.type(self.bounds.high))
        kept = _kept(x, is_masked=self.is_masked)
        self.nans += int(np.count_nonzero(np.isnan(x))) if not kept.all() else 0
        if not kept.all():
            values, y = np.where(kept, values, work.type(0)), np.where(kept, y, FLOAT32.type(0))
        step = np.abs(expand(scale, x.shape, granularity).astype(work))
        axis = normalize_axis(granularity.axis, x.ndim) if isinstance(granularity, PerAxis) else None
        difference = values - y
        self.elements += int(np.count_nonzero(kept))
        outside = np.abs(difference) > step * work.type(self._outside())
        self.clipped += int(np.count_nonzero(outside))
        self.clip_noise += float(np.sum(np.square(difference[outside], dtype=FLOAT64)))
        self.vanished += int(np.count_nonzero((values != 0) & (y == 0)))
        over = tuple(each for each in range(x.ndim) if each != axis)
        self.low = np.minimum(self.low, np.min(values, over, initial=np.inf, where=kept).reshape(-1))
        self.high = np.maximum(self.high, np.max(values, over, initial=-np.inf, where=kept).reshape(-1))
        self.signal = self.signal + _power(values, axis)
        self.noise = self.noise + _power(difference, axis)
        largest = step.reshape(-1) if axis is not None else np.max(step, initial=0.0).reshape(1)
        self.scale = np.maximum(self.scale, largest.astype(FLOAT64))
        self.is_symmetric &= self.fmt.low < 0 and (zero_point is None or not zero_point.astype(FLOAT64).any())
        self._count_codes(made)
        if self.is_weight and not self.is_masked and self.fmt.first_opset.quantize is not None:
            self._judge_scale(x, scale, granularity, zero_point)

    def _judge_scale(self, x: Array, scale: Array, granularity: Granularity, zero_point: Array | None) -> None:
        whole, groups, holding = excess_noise(x, scale, self.fmt, granularity, zero_point)
        at = np.unravel_index(np.argmax(groups), groups.shape)
        if groups[at] > MOST_EXCESS_DB_OF_GROUP or (whole > MOST_EXCESS_DB and x.size >= MANY):
            place = f" at {[int(each) for each in at]}" if at else ""
            self.excess = (
                f"{whole:.1f} dB more error than with scales that just hold the values; the scale{place} is "
                f"{float(scale[at]):.4g} ({groups[at]:.1f} dB), and {holding[at]:.4g} would fit"
            )

    def _outside(self) -> float:
        """Return the error, in scales, beyond which a value was clipped; rounding is off by half of the widest step."""
        # 2**-6 allows for roundings of the arithmetic.
        return float(step_widths(np.asarray(self.fmt.high, FLOAT64), self.fmt)) * (0.5 + 2.0**-6)

    def _count_codes(self, codes: Array) -> None:
        if self.fmt.bits <= COUNTED_BITS:
            counts = np.bincount(np.ascontiguousarray(codes).view(np.uint8).reshape(-1), minlength=256)
            self.codes = counts if not self.codes.size else self.codes + counts

    @property
    def least_db(self) -> float:
        """The lowest SQNR of a fitting scale of this format, in dB."""
        return LEAST_DB.get(self.fmt.bits, LEAST_DB_OF_8_BITS)

    @property
    def sqnr_db(self) -> float | None:
        """SQNR over all values in dB; None if it is undefined: no error, or only zeros."""
        return ratio_db(float(np.sum(self.signal)), float(np.sum(self.noise)))

    @property
    def worst_channel(self) -> tuple[int, float] | None:
        """The channel with the lowest SQNR and its SQNR in dB; None for a scale that is not per-axis."""
        judged = self.signal >= MIN_CHANNEL_SHARE * np.mean(self.signal)
        judged &= (self.signal > 0) & (self.noise > 0)
        if self.signal.size == 1 or not judged.any():
            return None
        ratios = np.where(judged, decibels(self.signal, self.noise), np.inf)
        worst = int(np.argmin(ratios))
        return worst, float(ratios[worst])

    @property
    def lowest_db(self) -> float | None:
        """The lower of two SQNRs: over all values, and in the worst channel; None if both are undefined."""
        channel = self.worst_channel
        found = [ratio for ratio in (self.sqnr_db, channel[1] if channel is not None else None) if ratio is not None]
        return min(found, default=None)

    def describe(self) -> str:
        """Return a text with the lowest SQNR, the facts that explain it, and the scale that would fit."""
        if self.excess and (self.lowest_db is None or self.lowest_db >= self.least_db):
            return self.excess
        channel = self.worst_channel
        whole = self.sqnr_db
        by_channel = channel is not None and (whole is None or channel[1] < whole)
        ratio = channel[1] if channel is not None and by_channel else whole
        place = channel[0] if channel is not None and by_channel else slice(None)
        where = f" in channel {place} of {self.signal.size}" if by_channel else ""
        scale = float(np.max(self.scale[place]))
        low, high = float(np.min(self.low[place])), float(np.max(self.high[place]))
        fits = self._fitting_scale(low, high)
        return (
            f"{'no' if ratio is None else f'{ratio:.1f} dB'} SQNR{where}: {self._explanation()}; the values lie in "
            f"[{low:.4g}, {high:.4g}], the scale is {scale:.4g}{f', and {fits:.4g} would fit' if fits else ''}"
        )

    def _explanation(self) -> str:
        shares = [f"{self.clipped_share:.1%} of the values are clipped", f"{self.vanished_share:.1%} become 0"]
        if self.one_code_share is not None:
            shares.append(f"{self.one_code_share:.1%} of the codes are equal")
        return ", ".join(shares)

    def _fitting_scale(self, low: float, high: float) -> float:
        """Return the smallest scale with which the range of the format covers the values."""
        if self.is_symmetric:
            return max(abs(low), abs(high)) / self.fmt.high
        return (max(high, 0.0) - min(low, 0.0)) / (self.fmt.high - self.fmt.low)

    @property
    def clipped_share(self) -> float:
        """Share of the values outside the range."""
        return self.clipped / max(1, self.elements)

    @property
    def is_clipping(self) -> bool:
        """Whether clipped values make most of the error."""
        return self.clip_noise > MOST * float(np.sum(self.noise))

    @property
    def vanished_share(self) -> float:
        """Share of all values that became 0 without being 0 before."""
        return self.vanished / max(1, self.elements)

    @property
    def one_code_share(self) -> float | None:
        """Share of the elements with the most frequent code; None if codes are not counted."""
        total = int(np.sum(self.codes))
        return float(np.max(self.codes)) / total if total else None


def leads_to_softmax(entry: QdqNode) -> bool:
    """Return whether a Softmax reads the result of a Q or DQ, directly or through other operators than products."""
    seen: set[Value] = set()
    waiting = [entry.output]
    while waiting and len(seen) < MAX_TENSORS:
        value = waiting.pop(0)
        if value is None or value in seen:
            continue
        seen.add(value)
        for node in (use.node for use in value.uses):
            # An Exp may belong to a Softmax that is written as single operators.
            if ops.traits(node).softmax or node.is_op("Exp") or "Attention" in node.op_type:
                return True
            if ops.product(node) is None:
                waiting += node.outputs
    return False


def _kept(values: Array, *, is_masked: bool) -> Array:
    """Return which values are compared: all finite values except masks, or the masks if there are no other values."""
    kept = np.isfinite(values)
    masks = kept & (values <= MASK) & is_masked
    return kept & ~masks if masks.any() and (kept & ~masks).any() else np.asarray(kept)


def _power(values: Array, axis: int | None) -> Array:
    """Return the sum of squares in float64, of shape ``[1]``, or ``[channels]`` for an axis."""
    if axis is None:
        return np.asarray(np.einsum("i,i->", values.reshape(-1), values.reshape(-1), dtype=FLOAT64)).reshape(1)
    channels = values.shape[axis]
    flat = values.reshape(math.prod(values.shape[:axis]), channels, math.prod(values.shape[axis + 1 :]))
    return np.asarray(np.einsum("ijk,ijk->j", flat, flat, dtype=FLOAT64))
