"""Find the scales of values that are codes times scales already, as those of a network after simulated quantization."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import Granularity
from qdqtool.numerics.groups import ranges, reduce_groups
from qdqtool.numerics.number_format import NumberFormat


def scale_on_grid(x: Array, fmt: NumberFormat, granularity: Granularity, *, tolerance: float = 0.0) -> Array | None:
    """Return scales with which quantizing and dequantizing gives back every value.

    The largest magnitude of each group, or of the whole tensor, is taken for the largest code or the lowest. Where that
    is right for some groups, the others may use as little as half of the codes: channels of one tensor, quantized with
    one scale and multiplied with factors since.

    Args:
        x: float32, float16 or bfloat16.
        fmt: Format of the codes, without a zero point.
        granularity: Over which elements a scale is shared.
        tolerance: How far a value may move, relative to itself; 0 asks for the same bits, but for the sign of zeros.

    Returns:
        Scales in the type of ``x``, of the shape that ``granularity`` asks for; None where a group lies on no grid.
    """
    search = _Search(x, fmt, granularity, tolerance)
    if search.take(_likely(search.peaks, fmt)) and fmt.kind == "integer":
        search.take(search.peaks / code for code in range(int(fmt.high) - 1, int(fmt.high) // 2, -1))
    return None if search.missing.any() else search.scale


def _likely(peaks: Array, fmt: NumberFormat) -> Iterator[Array]:
    """Yield the scales that make the largest value of each group, or of the tensor, a code at the end of the range."""
    for peak in (peaks, np.full_like(peaks, peaks.max(initial=0.0))):
        for code in dict.fromkeys((fmt.high, abs(fmt.low))):
            yield peak / code


class _Search:
    """The groups whose scale is found.

    Attributes:
        peaks: The largest magnitude of each group, float64.
        scale: The scales that are found; 1 for groups of zeros.
        missing: Groups without one.
    """

    def __init__(self, x: Array, fmt: NumberFormat, granularity: Granularity, tolerance: float) -> None:
        self._x, self._fmt, self._granularity, self._tolerance = x, fmt, granularity, tolerance
        low, high = ranges(x, granularity)
        self.peaks = np.maximum(np.abs(low), np.abs(high)).astype(FLOAT64)
        self.scale: Array = np.ones(self.peaks.shape, x.dtype)
        self.missing: npt.NDArray[np.bool_] = self.peaks > 0

    def take(self, scales: Iterator[Array]) -> bool:
        """Try scales for the groups that have none yet; return whether any group has one of these."""
        before = int(self.missing.sum())
        for given in scales:
            for scale in self._neighbors(given):
                if self.missing.any():
                    self._try(scale)
        return int(self.missing.sum()) < before

    def _neighbors(self, given: Array) -> Iterator[Array]:
        """Yield a scale, and the floats beside it where every bit counts: the product of code and scale was rounded."""
        dtype = self._x.dtype
        scale = np.where(given > 0, given, 1.0).astype(dtype)
        yield scale
        if not self._tolerance and dtype in {FLOAT32, FLOAT16}:
            yield np.nextafter(scale, dtype.type(0))
            yield np.nextafter(scale, dtype.type(np.inf))

    def _try(self, given: Array) -> None:
        scale = np.where(self.missing, given, self.scale).astype(self._x.dtype)
        made = fake_quantize(self._x, scale, self._fmt, self._granularity)
        wide = self._x.astype(FLOAT64)
        near = np.abs(made.astype(FLOAT64) - wide) <= self._tolerance * np.abs(wide)
        fits = self.missing & reduce_groups(near, self._granularity, np.logical_and)
        self.scale = np.where(fits, scale, self.scale).astype(self._x.dtype)
        self.missing = self.missing & ~fits
