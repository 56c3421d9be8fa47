"""Kernels, compiled by numba, that fit block scales to their codes. Imported only when they are used.

Groups are the columns of a tile, ``[elements of a group, LANES]``. So the innermost loop runs over groups with unit
stride and fits vector registers, for blocks on any axis. A tile stays in a near cache for all candidates. The sums of
each group are added up in the order of its elements, as in the NumPy twin.
"""

from typing import Any

import numpy as np

from qdqtool.numerics.compiled.rows import compiled
from qdqtool.numerics.dtypes import Array

LANES = 128
"""Number of groups in a tile."""
STRIP = 4 * LANES
"""Number of groups that are loaded together: reading these longer rows is twice as fast as reading rows of a tile."""
ACROSS = 16
"""Number of groups that are transposed together if the elements of a group are neighbors in memory."""
_HALF_BITS = np.int32(-0x7000_2000)
"""Mask of the float32 bits that hold the bits of a half: without 3 bits of the exponent and 13 of the mantissa."""


def _fill_half(run: Array, out: Array) -> None:
    """Convert binary16 patterns to float32; infinities and NaN become 65,536 or more, beyond every finite half."""
    for index in range(run.size):
        # 10 mantissa bits move to the top of 23, and the sign comes along: int16 has been extended by it. The exponent
        # keeps the bias 15 where float32 has 127: hence times 2**112, which is exact for subnormals too.
        bits = np.int32(np.int16(run[index])) << np.int32(13)
        out[index] = np.int32(bits & _HALF_BITS).view(np.float32) * np.float32(2.0**112)


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


def _load_turned(values: Array, halves: bool, place: Any, part: Any, tile: Array) -> None:
    """Load groups whose elements are neighbors in memory: copy a few groups to a near cache, then transpose them."""
    length, _, block, per_axis = place
    first, last = part
    groups = np.empty((ACROSS, block), np.float32)
    for lane in range(0, last - first, ACROSS):
        width = min(ACROSS, last - first - lane)
        for index in range(width):
            outer, number = (first + lane + index) // per_axis, (first + lane + index) % per_axis
            count, start = min(block, length - number * block), outer * length + number * block
            fill(values[start : start + count], halves, groups[index, :count])
            groups[index, count:] = 0
        for row in range(block):
            out = tile[row, lane : lane + width]
            for index in range(width):
                out[index] = groups[index, row]


load_turned = compiled(_load_turned)


def _load(values: Array, halves: bool, place: Any, part: Any, tile: Array) -> None:
    """Load the groups of ``part`` (first, last + 1) into the first lanes, and fill short groups with zeros."""
    length, inner, block, per_axis = place
    first, last = part
    if inner == 1:
        load_turned(values, halves, place, part, tile)
        return
    lane = 0
    while first + lane < last:
        group = first + lane
        outer, number, column = group // (per_axis * inner), group // inner % per_axis, group % inner
        width = min(inner - column, last - first - lane)
        count = min(block, length - number * block)
        start = (outer * length + number * block) * inner + column
        for row in range(count):
            source = start + row * inner
            fill(values[source : source + width], halves, tile[row, lane : lane + width])
        tile[count:, lane : lane + width] = 0
        lane += width


def _extremes(tile: Array, most: Array, least: Array) -> None:
    """For each group, find the bits of the largest magnitude and of the magnitude of the most negative value.

    NaN counts as the largest magnitude.
    """
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
    """Compute ``sum(v * q)`` and ``sum(q * q)`` of each group; ``v`` are the values in steps, ``q`` their codes."""
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
    """Compute ``sum(v * q)`` and ``sum(v * v)`` of each group."""
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


def _keep_better(share: Any, sums: Any, found: Any) -> None:
    """In each lane, store the gain and the step of the candidate if its gain is the largest so far."""
    product, square = sums
    best, ratio = found
    for lane in range(LANES):
        fitted = share * (product[lane] / square[lane])
        gain = share * product[lane] * fitted
        ratio[lane] = fitted if gain > best[lane] else ratio[lane]
        best[lane] = gain if gain > best[lane] else best[lane]  # noqa: FURB136  max() would take NaN


load, extremes = compiled(_load), compiled(_extremes)
sums, powers, keep_better = compiled(_sums), compiled(_powers), compiled(_keep_better)


def _fit(values: Array, halves: bool, place: Any, options: Any, found: Any) -> None:
    """Fit the groups from ``first`` to ``last``: see :func:`qdqtool.numerics.fit.fit`."""
    length, inner, block, per_axis, first, last = place
    low, high, shares, either_sign = options
    scale, amax = found
    lanes, bounds = np.float32, (low, high)
    strip, tile = np.zeros((block, STRIP), lanes), np.zeros((block, LANES), lanes)
    most, least = np.zeros(LANES, np.int32), np.zeros(LANES, np.int32)
    unit, reciprocal, ratio = np.ones(LANES, lanes), np.ones(LANES, lanes), np.ones(LANES, lanes)
    best, product = np.ones(LANES, lanes), np.ones(LANES, lanes)
    square, power = np.ones(LANES, lanes), np.ones(LANES, lanes)
    for start in range(first, last, LANES):
        width, place_in_strip = min(LANES, last - start), (start - first) % STRIP
        if place_in_strip == 0:
            load(values, halves, (length, inner, block, per_axis), (start, min(start + STRIP, last)), strip)
        for row in range(block):
            fill_float(strip[row, place_in_strip : place_in_strip + LANES], tile[row])
        extremes(tile, most, least)
        magnitude = most.view(np.float32)
        for lane in range(LANES):
            turned = either_sign and least[lane] < most[lane]
            unit[lane] = -magnitude[lane] if turned else magnitude[lane]
            best[lane], ratio[lane] = np.float32(0), shares[0]
        for number in range(shares.size):
            for lane in range(LANES):
                reciprocal[lane] = np.float32(1) / (unit[lane] * shares[number])
            sums(tile, reciprocal, bounds, (product, square))
            keep_better(shares[number], (product, square), (best, ratio))
        for lane in range(LANES):
            reciprocal[lane] = np.float32(1) / (unit[lane] * ratio[lane])
        powers(tile, reciprocal, bounds, (product, power))
        for lane in range(width):
            fitted = ratio[lane] * (power[lane] / product[lane])
            scale[start + lane] = unit[lane] * (fitted if fitted > 0 else ratio[lane])
            amax[start + lane] = most[lane]


fit = compiled(_fit)
