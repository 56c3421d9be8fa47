"""Kernels, compiled by numba, that quantize float32 to float4e2m1. Imported only when they are used.

The encoder of :mod:`qdqtool.numerics.compiled.rows` handles every small float. float4e2m1 has only eight magnitudes:
multiples of 0.5 below 2, of 1 below 4, and of 2 above. Its own encoder takes a third of the operations.
"""

from typing import Any

import numpy as np

from qdqtool.numerics.compiled.rows import SHORT, SPREAD, compiled
from qdqtool.numerics.dtypes import Array

BLOCK = 16
"""Number of elements of an NVFP4 block. A loop of this fixed length compiles to operations on two vectors."""
_NAN = np.int32(15)
"""Code of NaN, the code of the lowest value: the format has no NaN."""


def _float4(quotient: Any) -> Any:
    """Encode a quotient, saturated and rounded half to even: a code is even if its multiple of the step is even."""
    value = np.float32(quotient)
    size = min(np.float32(6), abs(value))
    finer = np.float32(2) if size < np.float32(2) else np.float32(1) if size < np.float32(4) else np.float32(0.5)
    below = np.float32(0) if size < np.float32(2) else np.float32(2) if size < np.float32(4) else np.float32(4)
    sign = np.int32(np.int32(value.view(np.int32) >> np.int32(28)) & np.int32(8))
    code = np.int32(np.int32(np.rint(size * finer) + below) | sign)
    return np.uint8(code if value == value else _NAN)  # noqa: PLR0124 -- NaN


float4 = compiled(_float4)


def _row(x: Array, scale: Any, out: Array) -> None:
    for i in range(x.size):
        out[i] = float4(x[i] / scale)


def _vector(x: Array, scale: Array, out: Array) -> None:
    for i in range(x.size):
        out[i] = float4(x[i] / scale[i])


def _spread_block(value: Any, out: Array) -> None:
    for i in range(BLOCK):
        out[i] = value


def _spread(value: Any, out: Array) -> None:
    for i in range(out.size):
        out[i] = value


row, vector, spread_block, spread = compiled(_row), compiled(_vector), compiled(_spread_block), compiled(_spread)


def _short_rows(x: Array, scale: Array, out: Array, rows: Any) -> None:
    """Quantize many short rows in one loop, with the scale copied for each element."""
    first, last, per_group, group, step = rows
    scales = np.empty(SPREAD, np.float32)
    number = first
    while number < last:
        count = min(SPREAD // step, last - number, per_group - number % per_group)
        start = (number // per_group) * group + (number % per_group) * step
        stop = min(start + count * step, (number // per_group + 1) * group)
        for which in range(count):
            part = scales[which * step : (which + 1) * step]
            if step == BLOCK:
                spread_block(scale[(number + which) % scale.size], part)
            else:
                spread(scale[(number + which) % scale.size], part)
        vector(x[start:stop], scales[: stop - start], out[start:stop])
        number += count


short_rows = compiled(_short_rows)


def _float_rows(x: Array, scale: Array, _bounds: Any, _layout: Any, out: Array, rows: Any) -> None:
    """As :func:`qdqtool.numerics.compiled.rows.float_rows`."""
    first, last, per_group, group, step = rows
    if step <= SHORT:
        short_rows(x, scale, out, rows)
        return
    for number in range(first, last):
        start = (number // per_group) * group + (number % per_group) * step
        stop = min(start + step, (number // per_group + 1) * group)
        row(x[start:stop], scale[number % scale.size], out[start:stop])


def _float_vectors(x: Array, scale: Array, _bounds: Any, _layout: Any, out: Array, rows: Any) -> None:
    """As :func:`qdqtool.numerics.compiled.rows.float_vectors`."""
    first, last, per_group, blocks, height = rows
    for number in range(first, last):
        which = (number // per_group) * blocks + (number % per_group) // height
        vector(x[number], scale[which], out[number])


float_rows, float_vectors = compiled(_float_rows), compiled(_float_vectors)
