"""Kernels, compiled by numba, that fit block scales to their codes. Imported only when they are used.

Groups lie side by side in a tile, ``[elements of a group, LANES]``, so that the innermost loop runs over groups with
unit stride and fits vector registers whichever axis the blocks lie on, and a tile stays in a near cache for all
candidates. The sums of each group are added up in the order of its elements, as the NumPy twin does.
"""

from typing import Any

import numpy as np

from qdqtool.numerics.compiled.rows import compiled
from qdqtool.numerics.dtypes import Array

LANES = 128
"""Groups in a tile."""


def _fill_half(run: Array, out: Array) -> None:
    """Convert binary16 patterns to float32; infinities and NaN become 65,536 or more, which no half value reaches."""
    for index in range(run.size):
        bits = np.uint32(run[index])
        sign = (bits & np.uint32(0x8000)) << np.uint32(16)
        # 10 mantissa bits move to the top of 23. The exponent keeps the bias 15 where float32 has 127: hence times
        # 2**112, which is exact for subnormals too.
        size = (bits & np.uint32(0x7FFF)) << np.uint32(13)
        out[index] = np.uint32(size | sign).view(np.float32) * np.float32(2.0**112)


def _fill_float(run: Array, out: Array) -> None:
    for index in range(run.size):
        out[index] = run[index]


fill_half, fill_float = compiled(_fill_half), compiled(_fill_float)


def _fill(run: Array, halves: bool, out: Array) -> None:
    if halves:
        fill_half(run, out)
    else:
        fill_float(run, out)


fill = compiled(_fill)


def _load(values: Array, halves: bool, place: Any, part: Any, tile: Array) -> None:
    """Load the groups of ``part`` (first, last + 1) into the first lanes, with zeros where a group is shorter."""
    length, inner, block, per_axis = place
    first, last = part
    lane = 0
    while first + lane < last:
        group = first + lane
        outer, number, column = group // (per_axis * inner), group // inner % per_axis, group % inner
        width = min(inner - column, last - first - lane)
        count = min(block, length - number * block)
        start = (outer * length + number * block) * inner + column
        if inner == 1:
            fill(values[start : start + count], halves, tile[:count, lane])
        else:
            for row in range(count):
                source = start + row * inner
                fill(values[source : source + width], halves, tile[row, lane : lane + width])
        tile[count:, lane : lane + width] = 0
        lane += width


def _extremes(tile: Array, most: Array, least: Array) -> None:
    """Find for each group the bits of its largest magnitude, with NaN the largest, and of its most negative value."""
    bits = tile.view(np.int32)
    most[:], least[:] = np.int32(0), np.int32(0)
    for row in range(bits.shape[0]):
        for lane in range(LANES):
            # Without the sign bit the order of the bits is that of the magnitudes, and NaN comes last.
            size = np.int32(bits[row, lane] & np.int32(0x7FFFFFFF))
            below = size if bits[row, lane] < 0 else np.int32(0)
            most[lane] = size if size > most[lane] else most[lane]  # noqa: FURB136  max() would be of 64 bits
            least[lane] = below if below > least[lane] else least[lane]  # noqa: FURB136


def _sums(tile: Array, reciprocal: Array, bounds: Any, sums: Any) -> None:
    """Add up ``sum(v * q)`` and ``sum(q * q)`` of each group; ``v`` are its values in steps, ``q`` their codes."""
    low, high = bounds
    product, square = sums
    product[:], square[:] = np.float32(0), np.float32(0)
    for row in range(tile.shape[0]):
        for lane in range(LANES):
            value = tile[row, lane] * reciprocal[lane]
            code = np.rint(value)
            code = max(low, code)
            code = min(high, code)
            product[lane] += value * code
            square[lane] += code * code


def _powers(tile: Array, reciprocal: Array, bounds: Any, sums: Any) -> None:
    """Add up ``sum(v * q)`` and ``sum(v * v)`` of each group."""
    low, high = bounds
    product, power = sums
    product[:], power[:] = np.float32(0), np.float32(0)
    for row in range(tile.shape[0]):
        for lane in range(LANES):
            value = tile[row, lane] * reciprocal[lane]
            code = np.rint(value)
            code = max(low, code)
            code = min(high, code)
            product[lane] += value * code
            power[lane] += value * value


load, extremes, sums, powers = compiled(_load), compiled(_extremes), compiled(_sums), compiled(_powers)


def _fit(values: Array, halves: bool, place: Any, options: Any, found: Any) -> None:
    """Fit the groups from ``first`` to ``last``: see :func:`qdqtool.numerics.fit.fit`.

    Args:
        values: float32 values or binary16 patterns, flat.
        halves: Which of the two.
        place: Length, inner, block, groups along the axis; first group, and the one after the last.
        options: Lowest and highest code, the steps that are tried over the largest magnitude, and whether a step may
            be negative.
        found: float32 steps and bits of the largest magnitudes, one for each group.
    """
    length, inner, block, per_axis, first, last = place
    low, high, shares, either_sign = options
    scale, amax = found
    lanes, bounds = np.float32, (low, high)
    tile = np.zeros((block, LANES), lanes)
    most, least = np.zeros(LANES, np.int32), np.zeros(LANES, np.int32)
    unit, reciprocal, ratio = np.ones(LANES, lanes), np.ones(LANES, lanes), np.ones(LANES, lanes)
    best, product = np.ones(LANES, lanes), np.ones(LANES, lanes)
    square, power = np.ones(LANES, lanes), np.ones(LANES, lanes)
    for start in range(first, last, LANES):
        width = min(LANES, last - start)
        load(values, halves, (length, inner, block, per_axis), (start, start + width), tile)
        extremes(tile, most, least)
        magnitude = most.view(np.float32)
        for lane in range(LANES):
            turned = either_sign and least[lane] < most[lane]
            unit[lane] = -magnitude[lane] if turned else magnitude[lane]
            best[lane], ratio[lane] = np.float32(0), shares[0]
        for number in range(shares.size):
            reciprocal[:] = np.float32(1) / (unit * shares[number])
            sums(tile, reciprocal, bounds, (product, square))
            for lane in range(LANES):
                fitted = shares[number] * (product[lane] / square[lane])
                gain = shares[number] * product[lane] * fitted
                if gain > best[lane]:
                    best[lane], ratio[lane] = gain, fitted
        reciprocal[:] = np.float32(1) / (unit * ratio)
        powers(tile, reciprocal, bounds, (product, power))
        for lane in range(width):
            fitted = ratio[lane] * (power[lane] / product[lane])
            scale[start + lane] = unit[lane] * (fitted if fitted > 0 else ratio[lane])
            amax[start + lane] = most[lane]


fit = compiled(_fit)
