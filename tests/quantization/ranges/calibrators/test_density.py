"""Densities against integrals in exact rationals, bin by bin and cell by cell."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.magnitudes import Piece, counted, histogram, pieces

from qdqtool.numerics import formats
from qdqtool.quantization.ranges.calibrators import clipped_fraction
from qdqtool.quantization.ranges.calibrators._density import Density, squared_error
from qdqtool.quantization.ranges.histogram import Histogram

GRIDS = {
    "int4": [Fraction(value) for value in range(8)],
    "int8": [Fraction(value) for value in range(128)],
    "float4e2m1": [Fraction(value, 2) for value in (0, 1, 2, 3, 4, 6, 8, 12)],
    "float6e2m3": [
        *(Fraction(value, 8) for value in range(16)),
        *(Fraction(value, 4) for value in range(8, 16)),
        *(Fraction(value, 2) for value in range(8, 16)),
    ],
}
"""The magnitudes of formats, written out."""
COUNTS = st.dictionaries(st.integers(0, 40), st.integers(1, 1000), min_size=1, max_size=8)
EXPONENTS = st.integers(-3, 2)
WITHIN = st.fractions(0, 1, max_denominator=64)
"""Where in the last bin the largest magnitude lies."""


def spread(found: Histogram, amax: Fraction) -> list[Piece]:
    """The pieces of a density: the last one ends at the largest magnitude, but is a 1,024th of a bin wide at least."""
    *rest, (low, high, count) = pieces(found)
    return [*rest, (low, max(amax, low + (high - low) / 1024), count)]


def largest(found: Histogram, within: Fraction) -> Fraction:
    *_, (low, high, _) = pieces(found)
    # A histogram holds no zeros, so that the largest magnitude is above 0 in the first bin too.
    return max(low + within * (high - low), Fraction(1, 1 << 20))


def integral(piece: Piece, low: Fraction, high: Fraction, about: Fraction, power: int) -> Fraction:
    """The sum of ``(x - about)**power`` over the values of a piece from ``low`` to ``high``."""
    start, stop, count = piece
    low, high = max(low, start), min(high, stop)
    if low >= high:
        return Fraction(0)
    whole = (high - about) ** (power + 1) - (low - about) ** (power + 1)
    return count * whole / (power + 1) / (stop - start)


def cells(grid: Sequence[Fraction], scale: Fraction, end: Fraction) -> Iterator[tuple[Fraction, Fraction, Fraction]]:
    """Lower end, upper end and value of each cell; the last one holds all that is larger."""
    ends = [Fraction(0), *((one + two) / 2 * scale for one, two in pairwise(grid)), max(end, grid[-1] * scale)]
    for value, (low, high) in zip(grid, pairwise(ends), strict=True):
        yield low, high, value * scale


@given(COUNTS, EXPONENTS, WITHIN, st.lists(st.fractions(-1, 50, max_denominator=32), min_size=1, max_size=6))
def test_sums_up_to_a_bound_are_integrals(counts, exponent, within, bounds):
    found = counted(counts, exponent)
    amax = largest(found, within)
    parts = spread(found, amax)
    below = Density.of(found, float(amax)).below(np.array([*map(float, bounds), np.inf]))
    wanted = [
        [float(sum(integral(part, Fraction(0), bound, Fraction(0), power) for part in parts)) for bound in bounds]
        + [float(sum(integral(part, part[0], part[1], Fraction(0), power) for part in parts))]
        for power in range(3)
    ]
    np.testing.assert_allclose(below, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", GRIDS)
@settings(max_examples=40)
@given(
    counts=COUNTS, exponent=EXPONENTS, within=WITHIN, shares=st.lists(st.fractions("1/64", 1), min_size=1, max_size=3)
)
def test_the_squared_error_is_the_integral_over_the_cells_of_the_grid(name, counts, exponent, within, shares):
    found, fmt = counted(counts, exponent), formats.get(name)
    amax = largest(found, within)
    parts = spread(found, amax)
    tried = [Fraction(float(amax * share)) for share in shares]
    wanted = []
    for each in tried:
        scale = each / GRIDS[name][-1]
        spans = list(cells(GRIDS[name], scale, parts[-1][1]))
        wanted.append(float(sum(integral(part, low, high, value, 2) for part in parts for low, high, value in spans)))
    errors = squared_error(Density.of(found, float(amax)), np.array([float(each) for each in tried]), fmt)
    noise = 1e-12 * float(sum(count * high**2 for _, high, count in parts))
    np.testing.assert_allclose(errors, wanted, rtol=1e-7, atol=noise)


@given(counts=COUNTS, exponent=EXPONENTS, within=WITHIN, share=st.fractions("1/64", 1))
@example(  # a last bin without width, and little clipped: differences of cubes were too coarse
    counts={0: 1, 1: 1, 2: 1, 3: 1, 37: 1}, exponent=0, within=Fraction(0), share=Fraction(210845, 211008)
)
def test_the_error_of_16_bits_is_a_twelfth_of_a_step_squared_and_that_of_clipping(counts, exponent, within, share):
    found = counted(counts, exponent)
    amax = largest(found, within)
    parts = spread(found, amax)
    tried = Fraction(float(amax * share))
    kept = sum(integral(part, Fraction(0), tried, Fraction(0), 0) for part in parts)
    clipped = sum(integral(part, tried, part[1], tried, 2) for part in parts)
    wanted = float(kept * (tried / 32767) ** 2 / 12 + clipped)
    (error,) = squared_error(Density.of(found, float(amax)), np.array([float(tried)]), formats.get("int16"))
    noise = 1e-12 * float(sum(count * high**2 for _, high, count in parts))
    assert error == pytest.approx(wanted, rel=1e-7, abs=noise)


def test_nothing_but_rounding_is_the_error_of_16_bits_without_clipping():
    density = Density.of(counted({0: 10, 2: 30}, 3), 24.0)
    errors = squared_error(density, np.array([24.0, 48.0]), formats.get("int16"))
    assert errors == pytest.approx(
        [40 * (24 / 32767) ** 2 / 12, 40 * (48 / 32767) ** 2 / 12], rel=1e-4
    )  # differences of sums near 2e4


def test_the_bins_of_a_density_end_with_the_largest_magnitude():
    density = Density.of(counted({0: 3, 2: 5}, 1), 5.5)
    assert density.edges.tolist() == [0, 2, 4, 5.5]
    assert density.counts.tolist() == [3, 0, 5]
    assert density.sums[0].tolist() == [0, 3, 3, 8]
    assert density.amax == 5.5


@given(COUNTS, EXPONENTS, st.integers(0, 50), st.fractions(0, 50, max_denominator=32))
def test_the_clipped_fraction_is_the_share_above(counts, exponent, zeros, amax):
    found = counted(counts, exponent, zeros)
    above = sum(integral(part, amax, part[1], Fraction(0), 0) for part in pieces(found))
    wanted = above / (sum(counts.values()) + zeros)
    assert clipped_fraction(found, float(amax)) == pytest.approx(float(wanted), rel=1e-12, abs=1e-12)


def test_beyond_the_last_bin_nothing_is_clipped():
    found = histogram(np.array([0.75, 1.0]))
    assert clipped_fraction(found, 2.0) == clipped_fraction(found, 100.0) == 0
    for nothing in (Histogram.empty(), histogram(np.zeros(5))):
        assert clipped_fraction(nothing, 1.0) == 0
    full = counted({(1 << 14) - 1: 4})
    assert clipped_fraction(full, float(1 << 14)) == 0
    assert clipped_fraction(full, (1 << 14) - 0.25) == 0.25
