"""Search block scales with a small squared error, for weights of few bits, where clipping large values pays.

Scales of integers have a float type: :mod:`qdqtool.numerics.fit` finds them. Scales of float4e2m1 are codes themselves:
scales around ``amax / high`` are tried, and the scale with the least ``sum((x - scale * code)**2)`` is kept.

Both searches multiply by the reciprocal of the scale, but the final quantization divides. So a tie may round the other
way, which changes a sum by at most one rounding.
"""

import functools
import importlib
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule, round_scale
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.numerics.fit import Fit, fit, fit_tiles
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.groups import BlockLayout
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams, QuantScheme

STEPS_UP, STEPS_DOWN = 1, 6
"""Numbers of scale codes tried above and below ``amax / high``. Neighboring fp8 scales differ by about 9 %."""
STRIDE = 3
"""Every third candidate is tried first, then the neighbors of the best. The result is within 0.01 dB of trying all."""
WORTH_IT = 1 << 20
"""Smallest array, in elements, for which compiling for a second saves time. Numba may cache the compiled code."""
GROUPS = 4096
"""Number of groups that are searched together: with blocks of 16, they fit the cache of a core."""


def supports(scheme: QuantScheme) -> bool:
    """Whether scales can be searched: symmetric blocks of signed integers, or of float4e2m1 with quantized scales."""
    fmt, inner = scheme.format, scheme.scale_scheme
    if not scheme.symmetric or not isinstance(scheme.granularity, Blocked):
        return False
    if inner is None:
        return fmt.kind == "integer" and fmt.low < 0
    return fmt.name == "float4e2m1" and inner.format.first_opset.quantize is not None


def least_error(x: Array, scheme: QuantScheme, rule: ScaleRule) -> tuple[QuantParams, Array]:
    """Find a scale with nearly the least squared error for each group; integer scales do not shrink the values.

    Args:
        x: float32 or float16, of any shape; C-contiguous arrays are faster.
        scheme: A scheme that :func:`supports` accepts.
        rule: The type in which scales are stored, and whether scales may be negative.

    Returns:
        The parameters, and the largest magnitude of each group as float32 in the scale's shape. A group of zeros gets
        the scale 1, or the smallest legal scale if scales are quantized.

    Raises:
        ArgumentError: The scheme is not supported, or a value is not finite.
    """
    if not supports(scheme):
        raise ArgumentError(f"scheme is {scheme}; a search for scales needs a symmetric block scheme of few bits")
    assert isinstance(scheme.granularity, Blocked)
    values = np.ascontiguousarray(x if x.dtype in (FLOAT32, FLOAT16) else x.astype(FLOAT32))
    shape, blocks = scheme.granularity.scale_shape(x.shape), BlockLayout.of(x.shape, scheme.granularity)
    found = _fitted if scheme.scale_scheme is None else _on_the_grid
    scale, amax, outer = found(values, blocks, scheme, rule)
    return QuantParams(scheme, scale.reshape(shape), None, outer), amax.reshape(shape)


def _fitted(values: Array, blocks: BlockLayout, scheme: QuantScheme, rule: ScaleRule) -> tuple[Array, Array, None]:
    wanted = Fit(scheme.format, rule.either_sign)
    steps, amax = fit(values, blocks, wanted, compiled=_compiled(values))
    _require_finite(amax, values)
    # The fit divides by the step, which overflows for subnormal float32. Such a group gets the smallest scale.
    steps = np.where(np.isinf(steps), 0, steps)
    size = round_scale(np.where(amax > 0, np.abs(steps), 1).astype(FLOAT64), rule.dtype)
    return np.where(steps < 0, -size, size).astype(rule.dtype), amax, None


def _require_finite(amax: Array, values: Array) -> None:
    if not (amax <= np.finfo(values.dtype).max).all():
        raise ArgumentError("a value is NaN or infinite")


def _on_the_grid(
    values: Array, blocks: BlockLayout, scheme: QuantScheme, rule: ScaleRule
) -> tuple[Array, Array, QuantParams]:
    amax = np.empty(blocks.groups, FLOAT32)
    blocks.on_chunks(GROUPS, lambda part: _magnitudes(_gather(values, blocks, part), values, amax[part]))
    _require_finite(amax, values)
    ladder = _ladder(amax, scheme, rule)
    scale = np.empty(blocks.groups, ladder.steps.dtype)
    blocks.on_chunks(GROUPS, lambda part: _search(values, blocks, part, ladder, scale))
    return scale, amax, ladder.outer


@dataclass(frozen=True, slots=True, eq=False)
class _Ladder:
    """The candidate scales of each group: consecutive values of the fp8 grid.

    Attributes:
        amax: Largest magnitude of each group.
        fmt: Format of the codes.
        steps: Every scale of the fp8 grid, smallest first.
        outer: The parameters of the scales.
    """

    amax: Array
    fmt: NumberFormat
    steps: Array
    outer: QuantParams

    @property
    def height(self) -> int:
        """The number of candidates of a group."""
        return STEPS_UP + STEPS_DOWN + 1

    def tops(self, part: slice, steps: Array) -> Array:
        """Return the positions in ``steps`` of the largest candidates of some groups, ``[groups]``."""
        found: Array = np.searchsorted(steps, self.amax[part] / FLOAT32.type(self.fmt.high)) + STEPS_UP
        return found

    def rungs(self, steps: Array, tops: Array, numbers: Array) -> Array:
        """Return the candidates with the given numbers as float32; number 0 is the largest scale."""
        places = tops - np.clip(numbers, 0, self.height - 1)
        scales: Array = steps[np.clip(places, 0, steps.size - 1)]
        return scales


def _ladder(amax: Array, scheme: QuantScheme, rule: ScaleRule) -> _Ladder:
    fmt, inner = scheme.format, scheme.scale_scheme
    assert inner is not None
    peak = float(np.max(amax, initial=0.0)) or fmt.high * inner.format.high
    outer = QuantParams(inner, round_scale(np.asarray(peak / (fmt.high * inner.format.high)), FLOAT32))
    steps = dequantize(_positive_codes(inner.format), outer.scale, inner.granularity, output_dtype=rule.dtype)
    return _Ladder(amax, fmt, _distinct(steps, outer, rule), outer)


def _distinct(steps: Array, outer: QuantParams, rule: ScaleRule) -> Array:
    """Return the steps that stay the same when they are stored in ``rule.dtype`` and quantized again."""
    inner = outer.scheme
    codes = quantize(steps.astype(FLOAT32), outer.scale, inner.format, inner.granularity)
    exact = dequantize(codes, outer.scale, inner.granularity, output_dtype=rule.dtype) == steps
    kept: Array = steps[exact & (steps >= SCALE_RANGE[rule.dtype][0])]
    return kept


def _positive_codes(fmt: NumberFormat) -> Array:
    codes = np.arange(1, 2 ** (fmt.bits - 1), dtype=np.uint8).view(fmt.dtype)
    finite: Array = codes[np.isfinite(codes.astype(FLOAT32))]
    return finite


def _magnitudes(tile: Array, values: Array, amax: Array) -> None:
    if _compiled(values):
        _tiles().magnitudes(tile.view(np.int32), amax.view(np.int32))
    else:
        amax[:] = np.max(np.abs(tile), axis=0, initial=0.0)


def _search(values: Array, blocks: BlockLayout, part: slice, ladder: _Ladder, scale: Array) -> None:
    """Find the best of every :data:`STRIDE`-th candidate, then the best of its neighbors."""
    tile = _gather(values, blocks, part)
    evaluate: Any = _tiles().evaluate if _compiled(values) else evaluate_by_rows
    high = FLOAT32.type(ladder.fmt.high)
    best, least = np.zeros(tile.shape[1], FLOAT32), np.full(tile.shape[1], np.inf, FLOAT32)
    grid = ladder.steps.astype(FLOAT32)
    tops, rungs = ladder.tops(part, grid), np.arange(0, ladder.height, STRIDE)[:, None]
    with np.errstate(all="ignore"):
        steps = ladder.rungs(grid, tops, rungs)
        evaluate(tile, steps, high, (best, least))
        nearest = rungs[np.argmax(steps == best, axis=0), 0]
        around = nearest + np.delete(np.arange(-STRIDE + 1, STRIDE), STRIDE - 1)[:, None]
        evaluate(tile, ladder.rungs(grid, tops, around), high, (best, least))
    scale[part] = np.where((best > 0) & (ladder.amax[part] > 0), best, ladder.steps[0])


def evaluate_by_rows(tile: Array, steps: Array, high: Any, found: tuple[Array, Array]) -> None:
    """The NumPy twin of :func:`qdqtool.numerics.compiled.tiles.evaluate`: the same operations in the same order.

    Args:
        tile: float32 ``[elements of a group, groups]``.
        steps: Candidate scales, float32 ``[candidates, groups]``.
        high: Largest value of the format.
        found: The best scale so far of each group and its error, float32; both are updated.
    """
    best, least = found
    for step in steps:
        reciprocal, error = FLOAT32.type(1) / step, np.zeros_like(least)
        for row in tile:
            code = _nearest_float4(row * reciprocal)
            difference = row - np.clip(code, -high, high) * step
            error += difference * difference
        better = error < least
        np.copyto(least, error, where=better)
        np.copyto(best, step, where=better)


def _nearest_float4(value: Array) -> Array:
    """Round to the grid of float4e2m1: multiples of 0.5 up to 2, of 1 up to 4, of 2 above."""
    size = np.abs(value)
    finer = np.where(size < 2, 2, np.where(size < 4, 1, 0.5)).astype(FLOAT32)
    return np.rint(value * finer) / finer


def _gather(values: Array, blocks: BlockLayout, part: slice) -> Array:
    if not _compiled(values):
        return blocks.gather(values, part)
    halves = values.dtype == FLOAT16
    flat = values.reshape(-1).view(np.uint16) if halves else values.reshape(-1)
    tile = _scratch((blocks.block, part.stop - part.start))
    fit_tiles().load(flat, halves, blocks.place, (part.start, part.stop), tile)
    return tile


_THREAD = threading.local()


def _scratch(shape: tuple[int, int]) -> Array:
    """Return memory that this thread uses again in later calls: new memory pages cost more time than the work."""
    size = shape[0] * shape[1]
    kept: Array | None = getattr(_THREAD, "tile", None)
    if kept is None or kept.size < size:
        kept = _THREAD.tile = np.empty(size, FLOAT32)
    return kept[:size].reshape(shape)


def _compiled(values: Array) -> bool:
    return values.size >= WORTH_IT and kernels.available()


@functools.cache
def _tiles() -> ModuleType:
    return importlib.import_module("qdqtool.numerics.compiled.tiles")
