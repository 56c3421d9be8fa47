"""Kernels, compiled by numba, that quantize contiguous rows of float32. Imported only when they are used.

Each kernel does the same operations as the NumPy code in :mod:`qdqtool.numerics.affine`, so the bits are equal. It
uses no fast-math, and divides where that code divides. A row is read once. There are two kinds of rows: rows with one
scale, and rows with one scale for each element.
"""

from typing import Any

import numba
import numpy as np

from qdqtool.numerics.dtypes import Array

SHORT = 64
"""Largest number of elements of a short row of small floats."""
SPREAD = 4096
"""Number of elements of short rows that one loop quantizes."""


def compiled(function: Any) -> Any:
    """Compile ``function``, with division by zero as in IEEE 754; cache the code if numba finds a writable folder."""
    jit: Any = numba.njit
    try:
        # numba's default error model raises ZeroDivisionError for floats, and its test keeps loops from being
        # vectorized.
        return jit(nogil=True, error_model="numpy", cache=True)(function)
    # numba raises RuntimeError where it finds no folder for its cache that it can write to.
    except RuntimeError:
        return jit(nogil=True, error_model="numpy")(function)


def _integer_row(x: Array, scale: Any, zero: Any, bounds: Any, out: Array) -> None:
    low, high, mask = bounds
    for i in range(x.size):
        code = np.rint(x[i] / scale) + zero
        # max(low, NaN) is low in numba, as np.fmax in the NumPy code: the order of the arguments matters. NaN gives
        # the lowest code.
        code = max(low, code)
        code = min(high, code)
        out[i] = np.int32(code) & mask


def _integer_vector(x: Array, scale: Array, zero: Array, bounds: Any, out: Array) -> None:
    low, high, mask = bounds
    for i in range(x.size):
        code = np.rint(x[i] / scale[i]) + zero[i]
        code = max(low, code)
        code = min(high, code)
        out[i] = np.int32(code) & mask


def _encode(value: Any, bounds: Any, layout: Any) -> Any:
    """Encode a quotient as the bits of a small float, saturated and rounded half to even."""
    # Normal results round in the integer bits. Subnormal ones are added to a power of two whose last place is their
    # step, so that the addition rounds.
    low, high = bounds
    shift, bias, smallest, magic, base, sign_shift, nan = layout
    kept = max(low, value)
    kept = min(high, kept)
    bits = np.float32(kept).view(np.uint32)
    size = bits & np.uint32(0x7FFFFFFF)
    half = (np.uint32(1) << (shift - np.uint32(1))) - np.uint32(1) + ((size >> shift) & np.uint32(1))
    normal = ((size + half) >> shift) - bias
    tiny = np.float32(abs(kept) + magic).view(np.uint32) - base
    code = normal if size >= smallest else tiny
    code = code if value == value else nan  # noqa: PLR0124 -- NaN
    return code | (np.float32(value).view(np.uint32) >> np.uint32(31)) << sign_shift


integer_row, integer_vector = compiled(_integer_row), compiled(_integer_vector)
encode = compiled(_encode)


def _float_row(x: Array, scale: Any, bounds: Any, layout: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = encode(x[i] / scale, bounds, layout)


def _float_vector(x: Array, scale: Array, bounds: Any, layout: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = encode(x[i] / scale[i], bounds, layout)


float_row, float_vector = compiled(_float_row), compiled(_float_vector)


def _integer_rows(x: Array, scale: Array, zero: Array, bounds: Any, out: Array, rows: Any) -> None:
    """Quantize rows with one scale each; ``rows``: first row, end, rows and elements in a group, elements in a row."""
    first, last, per_group, group, step = rows
    for row in range(first, last):
        start = (row // per_group) * group + (row % per_group) * step
        stop = min(start + step, (row // per_group + 1) * group)
        which = row % scale.size
        integer_row(x[start:stop], scale[which], zero[which], bounds, out[start:stop])


def _integer_vectors(x: Array, scale: Array, zero: Array, bounds: Any, out: Array, rows: Any) -> None:
    """Quantize rows, one scale per element; ``rows``: first row, end, rows and scale rows in a group, their ratio."""
    first, last, per_group, blocks, height = rows
    for row in range(first, last):
        which = (row // per_group) * blocks + (row % per_group) // height
        integer_vector(x[row], scale[which], zero[which], bounds, out[row])


def _short_float_rows(x: Array, scale: Array, bounds: Any, layout: Any, out: Array, rows: Any) -> None:
    """Quantize many short rows in one loop, with the scale copied for each element: many short loops cost more."""
    first, last, per_group, group, step = rows
    spread = np.empty(SPREAD, np.float32)
    row = first
    while row < last:
        count = min(SPREAD // step, last - row, per_group - row % per_group)
        start = (row // per_group) * group + (row % per_group) * step
        stop = min(start + count * step, (row // per_group + 1) * group)
        for which in range(count):
            value = scale[(row + which) % scale.size]
            for i in range(which * step, (which + 1) * step):
                spread[i] = value
        float_vector(x[start:stop], spread[: stop - start], bounds, layout, out[start:stop])
        row += count


short_float_rows = compiled(_short_float_rows)


def _float_rows(x: Array, scale: Array, bounds: Any, layout: Any, out: Array, rows: Any) -> None:
    """As :func:`_integer_rows`."""
    first, last, per_group, group, step = rows
    if step <= SHORT:
        short_float_rows(x, scale, bounds, layout, out, rows)
        return
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


def _range_rows(x: Array, low: Array, high: Array, rows: Any) -> None:
    """Find the smallest and largest finite value of each row, comparing integers that sort like the floats."""
    first, last, per_group, group, step = rows
    for row in range(first, last):
        start = (row // per_group) * group + (row % per_group) * step
        part = x[start : min(start + step, (row // per_group + 1) * group)]
        least, most = np.int32(2**31 - 1), np.int32(-(2**31 - 1))
        for i in range(part.size):
            # An exponent of all ones is an infinity or NaN; it counts as 0, as in the NumPy code.
            bits = part[i] if (part[i] & np.int32(0x7FFFFFFF)) < np.int32(0x7F800000) else np.int32(0)
            # The bits of negative floats grow with the magnitude; flipping all but the sign bit gives them the right
            # order.
            key = bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))
            least = min(least, key)
            most = max(most, key)
        low[row] = least ^ ((least >> np.int32(31)) & np.int32(0x7FFFFFFF))
        high[row] = most ^ ((most >> np.int32(31)) & np.int32(0x7FFFFFFF))


range_rows = compiled(_range_rows)
integer_rows, integer_vectors = compiled(_integer_rows), compiled(_integer_vectors)
float_rows, float_vectors = compiled(_float_rows), compiled(_float_vectors)
