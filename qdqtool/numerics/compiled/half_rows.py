"""Kernels, compiled by numba, that quantize contiguous rows of float16. Imported only when they are used.

They work like the kernels of :mod:`qdqtool.numerics.compiled.rows`, but values and quotients are binary16. The
quotient of two halves is computed in float32 and rounded to half by bit operations. This equals a single rounding.
"""

from typing import Any

import numpy as np

from qdqtool.numerics.compiled.rows import compiled, encode
from qdqtool.numerics.dtypes import Array

# Signed 32-bit integers keep the vectors of a loop as long as float32 vectors: numba adds and shifts unsigned 32-bit
# integers in 64 bits. Infinities and NaN are found by comparing bits.
_SIZE, _INFINITY = np.int32(0x7FFF), np.int32(0x7C00)
_HALF_BITS, _KEPT = np.int32(-0x7000_2000), np.int32(-0x2000)


def _half(bits: Any) -> Any:
    """Convert a binary16 pattern to float32, exactly, subnormals, infinities and NaN included."""
    wide = np.int32(np.int16(bits))
    size = np.int32(wide & _SIZE)
    value = np.int32(np.int32(wide << np.int32(13)) & _HALF_BITS).view(np.float32) * np.float32(2.0**112)
    value = value if size < _INFINITY else value * np.float32(np.inf)
    return value if size <= _INFINITY else np.float32(np.nan)


def _to_half(value: Any) -> Any:
    """Round float32 half to even to the 11 bits of a binary16 significand."""
    # Values below the smallest normal half keep more bits, and values that overflow stay finite: the code is the same.
    bits = np.float32(value).view(np.int32)
    # 13 bits fall away: add just under half of the last kept place, and one more where that place is odd.
    odd = np.int32(np.int32(bits >> np.int32(13)) & np.int32(1))
    return np.int32(np.int32(np.int32(bits + np.int32(0xFFF)) + odd) & _KEPT).view(np.float32)


half, to_half = compiled(_half), compiled(_to_half)


def _integer_row(x: Array, scale: Any, bounds: Any, out: Array) -> None:
    low, high, mask = bounds
    for i in range(x.size):
        code = np.rint(to_half(half(x[i]) / scale))
        code = max(low, code)
        code = min(high, code)
        out[i] = np.uint8(np.int32(code) & mask)


def _integer_vector(x: Array, scale: Array, bounds: Any, out: Array) -> None:
    low, high, mask = bounds
    for i in range(x.size):
        code = np.rint(to_half(half(x[i]) / scale[i]))
        code = max(low, code)
        code = min(high, code)
        out[i] = np.uint8(np.int32(code) & mask)


def _float_row(x: Array, scale: Any, bounds: Any, layout: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = encode(to_half(half(x[i]) / scale), bounds, layout)


def _float_vector(x: Array, scale: Array, bounds: Any, layout: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = encode(to_half(half(x[i]) / scale[i]), bounds, layout)


integer_row, integer_vector = compiled(_integer_row), compiled(_integer_vector)
float_row, float_vector = compiled(_float_row), compiled(_float_vector)


def _integer_rows(x: Array, scale: Array, bounds: Any, out: Array, rows: Any) -> None:
    """Quantize rows with one scale each; ``rows``: first row, end, rows and elements in a group, elements in a row."""
    first, last, per_group, group, step = rows
    for row in range(first, last):
        start = (row // per_group) * group + (row % per_group) * step
        stop = min(start + step, (row // per_group + 1) * group)
        integer_row(x[start:stop], scale[row % scale.size], bounds, out[start:stop])


def _integer_vectors(x: Array, scale: Array, bounds: Any, out: Array, rows: Any) -> None:
    """Quantize rows, one scale per element; ``rows``: first row, end, rows and scale rows in a group, their ratio."""
    first, last, per_group, blocks, height = rows
    for row in range(first, last):
        integer_vector(x[row], scale[(row // per_group) * blocks + (row % per_group) // height], bounds, out[row])


def _float_rows(x: Array, scale: Array, bounds: Any, layout: Any, out: Array, rows: Any) -> None:
    """As :func:`_integer_rows`."""
    first, last, per_group, group, step = rows
    for row in range(first, last):
        start = (row // per_group) * group + (row % per_group) * step
        stop = min(start + step, (row // per_group + 1) * group)
        float_row(x[start:stop], scale[row % scale.size], bounds, layout, out[start:stop])


def _float_vectors(x: Array, scale: Array, bounds: Any, layout: Any, out: Array, rows: Any) -> None:
    """As :func:`_integer_vectors`."""
    first, last, per_group, blocks, height = rows
    for row in range(first, last):
        which = (row // per_group) * blocks + (row % per_group) // height
        float_vector(x[row], scale[which], bounds, layout, out[row])


def _pack_nibbles(codes: Array, out: Array) -> None:
    """Pack two codes in each byte, the first in the low bits."""
    for i in range(out.size):
        out[i] = (codes[2 * i] & np.uint8(15)) | ((codes[2 * i + 1] & np.uint8(15)) << np.uint8(4))


integer_rows, integer_vectors = compiled(_integer_rows), compiled(_integer_vectors)
float_rows, float_vectors = compiled(_float_rows), compiled(_float_vectors)
pack_nibbles = compiled(_pack_nibbles)
