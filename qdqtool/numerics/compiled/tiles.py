"""Kernels, compiled by numba, that find scales of float4e2m1 by least squared error. Imported only when used.

Groups are the columns of a tile, ``[elements of a group, groups]``. So the innermost loop runs over groups with unit
stride and fits vector registers, for blocks on any axis. The sums of each group are added up in the order of its
elements, as in the NumPy twin.
"""

from typing import Any

import numpy as np

from qdqtool.numerics.compiled.rows import compiled
from qdqtool.numerics.dtypes import Array

LANES = 64
"""Number of groups that are evaluated together."""


def _magnitudes(bits: Array, amax: Array) -> None:
    """Find the largest magnitude of each group by comparing bits, which sort like the floats, NaN last."""
    amax[:] = np.int32(0)
    for row in range(bits.shape[0]):
        for lane in range(bits.shape[1]):
            size = np.int32(bits[row, lane] & np.int32(0x7FFFFFFF))
            amax[lane] = size if size > amax[lane] else amax[lane]  # noqa: FURB136  max() would be of 64 bits


def _nearest_float4(value: Any) -> Any:
    size = abs(value)
    # Multiples of 0.5 up to 2, of 1 up to 4, of 2 above: the grid of float4e2m1, continued beyond 6.
    finer = np.float32(2) if size < np.float32(2) else np.float32(1) if size < np.float32(4) else np.float32(0.5)
    step = np.float32(0.5) if size < np.float32(2) else np.float32(1) if size < np.float32(4) else np.float32(2)
    return np.rint(value * finer) * step


nearest_float4 = compiled(_nearest_float4)


def _errors(part: Array, step: Array, reciprocal: Array, high: Any, error: Array) -> None:
    for row in range(part.shape[0]):
        for lane in range(LANES):
            x = part[row, lane]
            code = nearest_float4(x * reciprocal[lane])
            code = max(-high, code)
            code = min(high, code)
            difference = x - code * step[lane]
            error[lane] += difference * difference


errors = compiled(_errors)


def _evaluate(tile: Array, steps: Array, high: Any, found: Any) -> None:
    """For each group, keep the first candidate with the least squared error if its error is below ``least``."""
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
            errors(part, step, reciprocal, high, error)
            for lane in range(width):
                if error[lane] < least[first + lane]:
                    least[first + lane] = error[lane]
                    best[first + lane] = steps[number, first + lane]


magnitudes, evaluate = compiled(_magnitudes), compiled(_evaluate)
