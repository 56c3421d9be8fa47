"""Kernels that numba compiles: block scales by least squared error. Imported only when they are used.

A tile holds groups side by side, ``[elements of a group, groups]``, so that the innermost loop runs over groups with
unit stride and fits vector registers whichever axis the blocks lie on. The sums of each group are added up in the
order of its elements, as the NumPy twin does.
"""

from typing import Any

import numpy as np

from qdqtool.numerics._half_rows import half
from qdqtool.numerics._rows import compiled
from qdqtool.numerics.dtypes import Array

LANES = 64
"""Groups that are evaluated at a time."""


def _widen(bits: Array, values: Array) -> None:
    """Binary16 patterns as float32."""
    for row in range(bits.shape[0]):
        for lane in range(bits.shape[1]):
            values[row, lane] = half(bits[row, lane])


def _gather_along(bits: Array, blocks: Any, first: int, tile: Array) -> None:
    """Groups whose elements lie far apart and whose neighbours lie side by side, in runs of the latter."""
    length, inner, block, per_axis = blocks
    lane = 0
    while lane < tile.shape[1]:
        group = first + lane
        outer, place, column = group // (per_axis * inner), group // inner % per_axis, group % inner
        width = min(inner - column, tile.shape[1] - lane)
        count = min(block, length - place * block)
        start = (outer * length + place * block) * inner + column
        for row in range(count):
            source = start + row * inner
            for index in range(width):
                tile[row, lane + index] = bits[source + index]
        tile[count:, lane : lane + width] = 0
        lane += width


def _gather_across(bits: Array, blocks: Any, first: int, tile: Array) -> None:
    """Groups whose elements lie side by side, transposed a few groups at a time."""
    length, _, block, per_axis = blocks
    starts, counts = np.empty(LANES, np.int64), np.empty(LANES, np.int64)
    for lanes in range(0, tile.shape[1], LANES):
        width = min(LANES, tile.shape[1] - lanes)
        for lane in range(width):
            outer, place = (first + lanes + lane) // per_axis, (first + lanes + lane) % per_axis
            starts[lane] = outer * length + place * block
            counts[lane] = min(block, length - place * block)
        for row in range(block):
            for lane in range(width):
                inside = row < counts[lane]
                tile[row, lanes + lane] = bits[starts[lane] + row] if inside else 0


def _magnitudes(bits: Array, amax: Array) -> None:
    """The largest magnitude of each group, on the bits: their order is that of the floats, and NaN comes last."""
    amax[:] = np.int32(0)
    for row in range(bits.shape[0]):
        for lane in range(bits.shape[1]):
            amax[lane] = max(amax[lane], bits[row, lane] & np.int32(0x7FFFFFFF))


def _nearest_float4(value: Any) -> Any:
    size = abs(value)
    finer = np.float32(2) if size < np.float32(2) else np.float32(1) if size < np.float32(4) else np.float32(0.5)
    step = np.float32(0.5) if size < np.float32(2) else np.float32(1) if size < np.float32(4) else np.float32(2)
    return np.rint(value * finer) * step


nearest_float4 = compiled(_nearest_float4)


def _integer_errors(part: Array, step: Array, reciprocal: Array, bounds: Any, error: Array) -> None:
    low, high = bounds
    for row in range(part.shape[0]):
        for lane in range(LANES):
            x = part[row, lane]
            code = np.rint(x * reciprocal[lane])
            code = max(low, code)
            code = min(high, code)
            difference = x - code * step[lane]
            error[lane] += difference * difference


def _float4_errors(part: Array, step: Array, reciprocal: Array, bounds: Any, error: Array) -> None:
    low, high = bounds
    for row in range(part.shape[0]):
        for lane in range(LANES):
            x = part[row, lane]
            code = nearest_float4(x * reciprocal[lane])
            code = max(low, code)
            code = min(high, code)
            difference = x - code * step[lane]
            error[lane] += difference * difference


integer_errors = compiled(_integer_errors)
float4_errors = compiled(_float4_errors)


def _evaluate(tile: Array, steps: Array, bounds: Any, float4: bool, found: Any) -> None:
    """The candidate of the least squared error for each group, the first on a tie, where it is less than ``least``."""
    best, least = found
    part, step = np.ones((tile.shape[0], LANES), np.float32), np.ones(LANES, np.float32)
    reciprocal, error = np.ones(LANES, np.float32), np.empty(LANES, np.float32)
    for first in range(0, tile.shape[1], LANES):
        width = min(LANES, tile.shape[1] - first)
        part[:, :width] = tile[:, first : first + width]
        for number in range(steps.shape[0]):
            step[:width] = steps[number, first : first + width]
            reciprocal[:] = np.float32(1) / step
            error[:] = np.float32(0)
            if float4:
                float4_errors(part, step, reciprocal, bounds, error)
            else:
                integer_errors(part, step, reciprocal, bounds, error)
            for lane in range(width):
                if error[lane] < least[first + lane]:
                    least[first + lane] = error[lane]
                    best[first + lane] = steps[number, first + lane]


gather_along = compiled(_gather_along)
gather_across = compiled(_gather_across)
widen = compiled(_widen)
magnitudes = compiled(_magnitudes)
evaluate = compiled(_evaluate)
