"""Scales of the least squared error, for weights whose few codes make clipping a few large values worth it.

For every group that shares a scale, some scales around ``amax / high`` are tried as the model would store them, and the
one with the least ``sum((x - scale * code)**2)`` is kept. The search multiplies with the reciprocal of the scale where
the final quantization divides: it may round a tie the other way, which changes no sum by more than a rounding.

A two's complement format has one more negative code than positive ones, so the best scale lies between ``amax / high``
and ``amax / -low`` for most groups. (A negative scale would give that code to the largest magnitude whatever its sign,
as ONNX Runtime's block quantizer does. TensorRT for RTX builds such models, but scales are documented to be positive
and the parser checks that where they are no block scales, so none is made here.)
"""

import functools
import importlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule, round_scale
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, normalize_axis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams, QuantScheme

CANDIDATES = 16
"""Scales tried for a group: more gain less than 0.02 dB on normal and Laplace values."""
LEAST_SHARE = 0.65
"""The smallest scale tried, over ``amax / high``; the best one for 128 normal values is below 0.71 in 1 % of blocks."""
STEPS_UP, STEPS_DOWN = 1, 6
"""Codes tried above and below that of ``amax / high`` where scales are fp8 codes, some 9 % apart."""
STRIDE = 3
"""Every third candidate is tried first, then those around the best of them: as good to 0.01 dB."""
WORTH_IT = 1 << 20
"""Elements from which compiling is worth its second, once on a machine where numba can keep its cache."""
GROUPS = 4096
"""Groups that are searched at a time: with blocks of 128 they fit a core's cache."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """A tensor as groups that share a scale, numbered as the scale's elements in row-major order.

    Attributes:
        length: Extent of the blocked axis.
        inner: Elements of one step along it.
        block: Elements in a group; the last one of an axis may have fewer.
        groups: Number of groups.
    """

    length: int
    inner: int
    block: int
    groups: int

    @property
    def per_axis(self) -> int:
        """Groups along the blocked axis."""
        return -(-self.length // self.block)


def supports(scheme: QuantScheme) -> bool:
    """Whether scales can be searched for: symmetric block schemes of integers and of float4e2m1."""
    fmt = scheme.format
    known = fmt.kind == "integer" or fmt.name == "float4e2m1"
    return scheme.symmetric and known and isinstance(scheme.granularity, Blocked)


def least_error(x: Array, scheme: QuantScheme, rule: ScaleRule) -> tuple[QuantParams, Array]:
    """For each group the scale of the least squared error among the candidates, the larger one on a tie.

    Args:
        x: float32 or float16, of any shape; C-contiguous arrays are faster.
        scheme: A scheme that :func:`supports` allows.
        rule: In which type scales are stored.

    Returns:
        The parameters, and the largest magnitude of each group as float32 in the scale's shape. A group of nothing but
        zeros gets the scale 1, or the smallest that there is where scales are quantized too.

    Raises:
        ArgumentError: The scheme is another, or a value is not finite.
    """
    if not supports(scheme):
        raise ArgumentError(f"scheme is {scheme}; scales are searched for in symmetric block schemes of few bits")
    assert isinstance(scheme.granularity, Blocked)
    values = np.ascontiguousarray(x if x.dtype in (FLOAT32, FLOAT16) else x.astype(FLOAT32))
    shape = scheme.granularity.scale_shape(x.shape)
    blocks = _blocks(x.shape, scheme.granularity)
    amax = np.empty(blocks.groups, FLOAT32)
    if scheme.scale_scheme is not None:  # the scale of the scales depends on the whole tensor
        _on_chunks(blocks, lambda part: _magnitudes(_gather(values, blocks, part), values, amax[part]))
    ladder = _ladder(amax, scheme, rule)
    scale = np.empty(blocks.groups, ladder.dtype)
    _on_chunks(blocks, lambda part: _search(values, blocks, part, ladder, scale))
    if not np.isfinite(amax).all():
        raise ArgumentError("a value is NaN or infinite")
    return QuantParams(scheme, scale.reshape(shape), None, ladder.outer), amax.reshape(shape)


@dataclass(frozen=True, slots=True, eq=False)
class _Ladder:
    """The scales that are tried, as values that the model stores.

    Attributes:
        amax: Largest magnitude of each group.
        fmt: Format of the codes.
        dtype: Type of the scales.
        steps: Every scale of the fp8 grid, smallest first; None where scales are plain floats.
        outer: With which constants scales are quantized; None where they are not.
    """

    amax: Array
    fmt: NumberFormat
    dtype: np.dtype[np.generic]
    steps: Array | None = None
    outer: QuantParams | None = None

    @property
    def for_zeros(self) -> float:
        """The scale of a group of nothing but zeros."""
        return 1.0 if self.steps is None else float(self.steps[0])

    @property
    def height(self) -> int:
        """How many rungs there are."""
        return CANDIDATES if self.steps is None else STEPS_UP + STEPS_DOWN + 1

    def rungs(self, part: slice, numbers: Array) -> Array:
        """Candidates of some groups as float32; the higher the number, the smaller the scale.

        Args:
            part: Which groups.
            numbers: Which rungs, ``[candidates, groups]``; those beyond an end stand for the end.
        """
        amax, numbers = self.amax[part], np.clip(numbers, 0, self.height - 1)
        if self.steps is None:
            shares = np.linspace(1.0, LEAST_SHARE, CANDIDATES).astype(FLOAT32) / FLOAT32.type(self.fmt.high)
            low, high = SCALE_RANGE[self.dtype]
            wanted = np.clip(shares[numbers] * amax, FLOAT32.type(low), FLOAT32.type(high))
            scales: Array = wanted.astype(self.dtype).astype(FLOAT32, copy=False)
        else:
            base = np.searchsorted(self.steps, amax / FLOAT32.type(self.fmt.high)) + STEPS_UP
            scales = self.steps[np.clip(base - numbers, 0, self.steps.size - 1)].astype(FLOAT32, copy=False)
        return scales


def _ladder(amax: Array, scheme: QuantScheme, rule: ScaleRule) -> _Ladder:
    fmt, inner = scheme.format, scheme.scale_scheme
    if inner is None:
        return _Ladder(amax, fmt, rule.dtype)
    if not np.isfinite(amax).all():
        raise ArgumentError("a value is NaN or infinite")
    peak = float(np.max(amax, initial=0.0)) or fmt.high * inner.format.high
    outer = QuantParams(inner, round_scale(np.asarray(peak / (fmt.high * inner.format.high)), FLOAT32))
    steps = dequantize(_positive_codes(inner.format), outer.scale, inner.granularity, output_dtype=rule.dtype)
    return _Ladder(amax, fmt, rule.dtype, _distinct(steps, outer, rule), outer)


def _distinct(steps: Array, outer: QuantParams, rule: ScaleRule) -> Array:
    """The steps that stay what they are when a type of few digits stores them."""
    inner = outer.scheme
    codes = quantize(steps.astype(FLOAT32), outer.scale, inner.format, inner.granularity)
    exact = dequantize(codes, outer.scale, inner.granularity, output_dtype=rule.dtype) == steps
    kept: Array = steps[exact & (steps >= SCALE_RANGE[rule.dtype][0])]
    return kept


def _positive_codes(fmt: NumberFormat) -> Array:
    codes = np.arange(1, 2 ** (fmt.bits - 1), dtype=np.uint8).view(fmt.dtype)
    finite: Array = codes[np.isfinite(codes.astype(FLOAT32))]
    return finite


def _blocks(shape: tuple[int, ...], granularity: Blocked) -> Blocks:
    axis = normalize_axis(granularity.axis, len(shape))
    inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    groups = int(np.prod(granularity.scale_shape(shape), dtype=np.int64))
    return Blocks(shape[axis], inner, granularity.block_size, groups)


def _on_chunks(blocks: Blocks, work: Callable[[slice], None]) -> None:
    """Do ``work`` on some groups at a time, on all cores: NumPy and the kernels let go of the interpreter lock."""
    edges = range(0, blocks.groups, GROUPS)
    parts = [slice(start, min(start + GROUPS, blocks.groups)) for start in edges]
    with ThreadPoolExecutor(kernels.cores()) as pool:
        list(pool.map(work, parts))


def _magnitudes(tile: Array, values: Array, amax: Array) -> None:
    if _compiled(values):
        _tiles().magnitudes(tile.view(np.int32), amax.view(np.int32))
    else:
        amax[:] = np.max(np.abs(tile), axis=0, initial=0.0)


def _search(values: Array, blocks: Blocks, part: slice, ladder: _Ladder, scale: Array) -> None:
    """The best of every :data:`STRIDE`-th rung, then the best of its neighbours."""
    tile = _gather(values, blocks, part)
    if ladder.steps is None:
        _magnitudes(tile, values, ladder.amax[part])
    evaluate: Any = _tiles().evaluate if _compiled(values) else evaluate_by_rows
    bounds = FLOAT32.type(ladder.fmt.low), FLOAT32.type(ladder.fmt.high)
    best, least = np.zeros(tile.shape[1], FLOAT32), np.full(tile.shape[1], np.inf, FLOAT32)
    rungs = np.repeat(np.arange(0, ladder.height, STRIDE)[:, None], tile.shape[1], axis=1)
    with np.errstate(all="ignore"):
        steps = ladder.rungs(part, rungs)
        evaluate(tile, steps, bounds, ladder.fmt.kind == "float", (best, least))
        nearest = rungs[np.argmax(steps == best, axis=0), 0]
        around = nearest + np.delete(np.arange(-STRIDE + 1, STRIDE), STRIDE - 1)[:, None]
        evaluate(tile, ladder.rungs(part, around), bounds, ladder.fmt.kind == "float", (best, least))
    scale[part] = np.where((best > 0) & (ladder.amax[part] > 0), best, ladder.for_zeros)


def evaluate_by_rows(
    tile: Array,
    steps: Array,
    bounds: tuple[Any, Any],
    float4: bool,
    found: tuple[Array, Array],
) -> None:
    """The NumPy twin of :func:`qdqtool.numerics._tiles.evaluate`: the same operations in the same order.

    Args:
        tile: float32 ``[elements of a group, groups]``.
        steps: Candidate scales, float32 ``[candidates, groups]``.
        bounds: Smallest and largest value of the format.
        float4: Whether codes are float4e2m1 instead of integers.
        found: For each group the best scale so far and its error, float32; both are updated.
    """
    best, least = found
    for step in steps:
        reciprocal, error = FLOAT32.type(1) / step, np.zeros_like(least)
        for row in tile:
            value = row * reciprocal
            code = _nearest_float4(value) if float4 else np.rint(value)
            difference = row - np.clip(code, *bounds) * step
            error += difference * difference
        better = error < least
        np.copyto(least, error, where=better)
        np.copyto(best, step, where=better)


def _nearest_float4(value: Array) -> Array:
    """Multiples of 0.5 up to 2, of 1 up to 4, of 2 above."""
    size = np.abs(value)
    finer = np.where(size < 2, 2, np.where(size < 4, 1, 0.5)).astype(FLOAT32)
    return np.rint(value * finer) / finer


def _gather(values: Array, blocks: Blocks, part: slice) -> Array:
    """Some groups side by side: float32 ``[elements of a group, groups]``, with zeros where the last one is shorter."""
    flat = values.reshape(-1)
    if _compiled(values):
        return _gather_compiled(flat, blocks, part)
    number = np.arange(part.start, part.stop)
    outer, place = number // (blocks.per_axis * blocks.inner), number // blocks.inner % blocks.per_axis
    along = place * blocks.block + np.arange(blocks.block)[:, None]
    index = (outer * blocks.length + along) * blocks.inner + number % blocks.inner
    inside = along < blocks.length
    return np.where(inside, flat[np.where(inside, index, 0)], 0).astype(FLOAT32)


def _gather_compiled(flat: Array, blocks: Blocks, part: slice) -> Array:
    kernels = _tiles()
    bits = flat.view(np.uint16 if flat.dtype == FLOAT16 else np.uint32)
    shape = blocks.block, part.stop - part.start
    raw = _scratch(bits.dtype, shape)
    gather: Any = kernels.gather_across if blocks.inner == 1 else kernels.gather_along
    gather(bits, (blocks.length, blocks.inner, blocks.block, blocks.per_axis), part.start, raw)
    if flat.dtype == FLOAT32:
        return raw.view(FLOAT32)
    tile = _scratch(FLOAT32, shape)
    kernels.widen(raw, tile)
    return tile


_THREAD = threading.local()


def _scratch(dtype: np.dtype[Any], shape: tuple[int, int]) -> Array:
    """Memory of this thread that the next call with the same type uses again: fresh pages cost more than the work."""
    size = shape[0] * shape[1]
    kept: Array | None = getattr(_THREAD, dtype.name, None)
    if kept is None or kept.size < size:
        kept = np.empty(size, dtype)
        setattr(_THREAD, dtype.name, kept)
    return kept[:size].reshape(shape)


def _compiled(values: Array) -> bool:
    return values.size >= WORTH_IT and kernels.available()


@functools.cache
def _tiles() -> ModuleType:
    return importlib.import_module("qdqtool.numerics._tiles")
