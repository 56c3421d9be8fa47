"""Quantize large arrays with compiled kernels on all cores, bit-equal to the NumPy code.

Compiling takes about a second, but only once if numba can keep its cache. So NumPy is used until an array with at least
:data:`WORTH_IT` elements has the kernels compiled. From then on smaller arrays use them too. Without numba everything
runs in NumPy.
"""

import functools
import importlib
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np

from qdqtool.numerics.cores import cores, on_all_cores
from qdqtool.numerics.dtypes import FLOAT16, FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor, check_scale_shape, normalize_axis
from qdqtool.numerics.number_format import NumberFormat

WORTH_IT = 10_000_000
"""Smallest array, in elements, for which compiling for a second saves time."""
SMALL = 1 << 17
"""Smaller arrays, in elements, are as fast in NumPy as in compiled code on several threads."""
_ROWS = "qdqtool.numerics.compiled.rows"
_HALF_ROWS = "qdqtool.numerics.compiled.half_rows"
_FLOAT4_ROWS = "qdqtool.numerics.compiled.float4_rows"
_HALF_FLOATS = ("float4e2m1",)
"""Float formats whose codes stay right if quotients below the smallest normal half keep more bits than a half has."""
_PIECE = 1 << 15

Rows = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How an array is divided into rows of one kind.

    Attributes:
        vector: Whether each element of a row has a scale of its own, instead of one scale for the row.
        count: Number of rows.
        rows: The last three numbers of the ``rows`` argument of the kernels.
        width: Elements of a row if ``vector``, else 0.
    """

    vector: bool
    count: int
    rows: Rows
    width: int = 0


def wanted(x: Array) -> bool:
    """Whether a float32 array should be quantized by kernels: it is contiguous and large enough."""
    return x.dtype == FLOAT32 and _is_worth(x, _ROWS)


def wanted_half(x: Array, scale: Array, fmt: NumberFormat) -> bool:
    """Whether :func:`quantize_half` accepts the array, and saves time on it."""
    known = (fmt.kind == "integer" and fmt.bits <= 8) or fmt.name in _HALF_FLOATS
    return x.dtype == FLOAT16 and scale.dtype == FLOAT16 and known and _is_worth(x, _HALF_ROWS)


def _is_worth(x: Array, module: str) -> bool:
    """Return whether an array is contiguous, and large enough for the kernels of a module to save time."""
    enough = x.size >= (SMALL if sys.modules.get(module) else WORTH_IT)
    return enough and x.flags.c_contiguous and available()


def prepare(x: Array) -> None:
    """Load the kernels if they save time on a large array that is then quantized in small parts."""
    if x.size >= WORTH_IT and available():
        importlib.import_module(_HALF_ROWS if x.dtype == FLOAT16 else _ROWS)


def supports(fmt: NumberFormat) -> bool:
    """Whether there is a kernel for a format: for all formats except the floats without negative zero."""
    return not fmt.name.endswith("fnuz")


def quantize(x: Array, scale: Array, fmt: NumberFormat, granularity: Granularity, zero_point: Array | None) -> Array:
    """Quantize with saturation, as :func:`qdqtool.numerics.affine.quantize` does.

    Args:
        x: float32, C-contiguous.
        scale: float32, in the shape that ``granularity`` requires.
        fmt: A format that :func:`supports` accepts.
        granularity: Which elements share a scale.
        zero_point: float32 of the scale's shape, or None.

    Raises:
        ArgumentError: A shape does not fit.
    """
    if fmt.kind == "integer":
        return _coded(_ROWS, (x, scale, np.zeros_like(scale) if zero_point is None else zero_point), fmt, granularity)
    return _coded(_FLOAT4_ROWS if fmt.name == "float4e2m1" else _ROWS, (x, scale), fmt, granularity)


def quantize_half(x: Array, scale: Array, fmt: NumberFormat, granularity: Granularity) -> Array:
    """Quantize float16 with float16 scales, as :func:`qdqtool.numerics.affine.quantize` does.

    Args:
        x: float16, C-contiguous.
        scale: float16, in the shape that ``granularity`` requires.
        fmt: An integer format of at most 8 bits, or float4e2m1.
        granularity: Which elements share a scale.
    """
    return _coded(_HALF_ROWS, (x.view(np.uint16), scale.astype(FLOAT32)), fmt, granularity)


def _coded(module: str, arrays: Sequence[Array], fmt: NumberFormat, granularity: Granularity) -> Array:
    """Return the codes from a kernel for values, scales and, for float32 to integers, zero points."""
    check_scale_shape(arrays[1].shape, arrays[0].shape, granularity)
    codes = np.empty(arrays[0].shape, fmt.dtype)
    if not codes.size:
        return codes
    layout, bounds = _layout(codes.shape, granularity), (np.float32(fmt.low), np.float32(fmt.high))
    # ml_dtypes stores int4 and int2 without sign extension: only the low bits of the byte are set.
    limits = ((*bounds, np.int32(2**fmt.bits - 1)),) if fmt.kind == "integer" else (bounds, _bit_layout(fmt))
    kernel: Any = getattr(importlib.import_module(module), f"{fmt.kind}_{'vectors' if layout.vector else 'rows'}")
    # Stored without sign, so that signed and unsigned formats use the same compiled kernel.
    *inputs, out = (_shaped(array, layout) for array in (*arrays, codes.view(f"u{fmt.dtype.itemsize}")))
    _on_all_rows(lambda rows: kernel(*inputs, *limits, out, rows), layout)
    return codes


def pack_nibbles(codes: Array) -> Array:
    """Pack an even number of 4-bit codes to bytes, as :func:`qdqtool.numerics.packing.pack` does.

    Args:
        codes: Codes of any shape, one per byte; :func:`worth_packing` must be true for them.
    """
    flat = codes.reshape(-1).view(np.uint8)
    packed = np.empty(flat.size // 2, np.uint8)
    kernel: Any = importlib.import_module(_HALF_ROWS).pack_nibbles
    edges = [packed.size * index // cores() for index in range(cores() + 1)]
    parts = list(itertools.pairwise(edges))
    on_all_cores(lambda pair: kernel(flat[2 * pair[0] :], packed[pair[0] : pair[1]]), parts)
    return packed


def worth_packing(codes: Array) -> bool:
    """Whether :func:`pack_nibbles` accepts the codes, and saves time on them."""
    return codes.size % 2 == 0 and _is_worth(codes, _HALF_ROWS)


def has_ranges(shape: tuple[int, ...], granularity: Granularity) -> bool:
    """Whether :func:`ranges` accepts a shape: its rows have one scale each. No extent may be 0."""
    return not _layout(shape, granularity).vector


def ranges(x: Array, granularity: Granularity) -> tuple[Array, Array]:
    """Find the smallest and largest finite value of each group, as :func:`qdqtool.numerics.groups.ranges` does.

    Args:
        x: float32, C-contiguous, not empty.
        granularity: Which elements form a group; :func:`has_ranges` must accept it.
    """
    layout = _layout(x.shape, granularity)
    low, high = np.empty(layout.count, FLOAT32), np.empty(layout.count, FLOAT32)
    bits = (array.reshape(-1).view(np.int32) for array in (x, low, high))
    values, least, most = bits
    kernel: Any = _kernels().range_rows
    _on_all_rows(lambda rows: kernel(values, least, most, rows), layout)
    shape = granularity.scale_shape(x.shape)
    groups = math.prod(shape)
    lowest, highest = low.reshape(-1, groups).min(axis=0), high.reshape(-1, groups).max(axis=0)
    return lowest.reshape(shape), highest.reshape(shape)


def _shaped(array: Array, layout: RowLayout) -> Array:
    return array.reshape(-1, layout.width) if layout.vector else array.reshape(-1)


@functools.cache
def _bit_layout(fmt: NumberFormat) -> tuple[Any, ...]:
    """Return the constants that the encoder needs for a small float format."""
    # Subnormals are multiples of a power of two. Adding ``2**23`` times this power rounds a float32 to a multiple.
    finfo: Any = ml_dtypes.finfo  # has no type hints
    info = finfo(fmt.dtype)
    magic = float(info.smallest_subnormal) * 2**23
    smallest = _float_bits(float(info.smallest_normal))
    shift = np.uint32(23 - info.nmant)
    bias = (smallest >> shift) - np.uint32(2**info.nmant)
    nan = np.array([np.nan if fmt.has_nan else fmt.low], FLOAT32).astype(fmt.dtype).view(np.uint8)[0]
    return shift, bias, smallest, np.float32(magic), _float_bits(magic), np.uint32(fmt.bits - 1), np.uint32(nan)


def _float_bits(value: float) -> np.uint32:
    return np.uint32(np.array([value], FLOAT32).view(np.uint32)[0])


def _layout(shape: tuple[int, ...], granularity: Granularity) -> RowLayout:
    """Divide a shape without 0 into rows."""
    size = math.prod(shape)
    match granularity:
        case PerTensor():
            pieces = -(-size // _PIECE)
            return RowLayout(False, pieces, (pieces, size, _PIECE))
        case PerAxis(axis):
            inner = math.prod(shape[normalize_axis(axis, len(shape)) + 1 :])
            if inner > 1:
                rows = size // inner
                return RowLayout(False, rows, (rows, size, inner))
            rows = size // shape[axis]
            return RowLayout(True, rows, (rows, 1, rows), shape[axis])
        case Blocked(axis, block):
            axis = normalize_axis(axis, len(shape))
            inner, length = math.prod(shape[axis + 1 :]), shape[axis]
            blocks = -(-length // block)
            if inner == 1:
                return RowLayout(False, size // length * blocks, (blocks, length, block))
            return RowLayout(True, size // inner, (length, blocks, block), inner)


def _on_all_rows(call: Callable[[tuple[int, ...]], None], layout: RowLayout) -> None:
    workers = min(cores(), layout.count)
    edges = [layout.count * index // workers for index in range(workers + 1)]
    on_all_cores(call, [(*pair, *layout.rows) for pair in itertools.pairwise(edges)])


@functools.cache
def available() -> bool:
    """Whether numba can be imported. It may be missing, or refuse the installed NumPy."""
    try:
        _kernels()
    except ImportError:
        return False
    return True


def _kernels() -> ModuleType:
    return importlib.import_module(_ROWS)
