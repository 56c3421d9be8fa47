"""Densities against integrals in exact rationals, bin by bin and cell by cell, and what counts as far away."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.magnitudes import Piece, counted, histogram, pieces

from qdqtool.numerics import formats
from qdqtool.quantization.ranges.calibrators import clipped_fraction
from qdqtool.quantization.ranges.calibrators._density import Density, split_outliers, squared_error
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange

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


ALL = 1e9
"""Magnitudes below this are lost: those of every tensor here."""


def tensor(counts: dict[int, int], exponent: int = 0, zeros: int = 0, **changes: float) -> TensorRange:
    found = counted(counts, exponent, zeros)
    amax = (max(counts) + 0.5) * 2.0**exponent
    return replace(TensorRange(-amax, amax, amax, sum(counts.values()) + zeros, found), **changes)


def splits(counts: dict[int, int], lost: float = 1000.0, **changes: float) -> bool:
    return split_outliers(tensor(counts, **changes), lost) is not None


@pytest.mark.parametrize("exponent", [-5, 0, 3])
def test_bulk_edge_and_share_of_a_split(exponent):
    found = split_outliers(tensor({2: 40_000, 9: 10_000, 160: 1, 200: 2}, exponent, zeros=50_000), 10 * 2.0**exponent)
    assert found.bulk == counted({2: 40_000, 9: 10_000}, exponent, 50_000)
    assert found.edge == 10 * 2.0**exponent
    assert found.share == pytest.approx(3 / 100_003, rel=1e-9)
    assert not found.is_mask


@pytest.mark.parametrize(("nearest", "far"), [(159, False), (160, True), (161, True)])
def test_the_gap_is_a_ratio_of_sixteen(nearest, far):
    assert splits({9: 100_000, nearest: 1}) is far


def test_of_several_gaps_the_widest_counts():
    found = split_outliers(tensor({9: 100_000, 170: 3, 16_000: 1}), 10.0)
    assert (found.edge, found.bulk.counts[170]) == (171, 3)
    found = split_outliers(tensor({9: 100_000, 1_700: 3, 16_000: 1}), 10.0)
    assert (found.edge, found.bulk.counts[1_700]) == (10, 0)


@pytest.mark.parametrize(("counts", "far"), [({2: 899, 9: 101}, False), ({2: 900, 9: 100}, True)])
def test_nine_tenths_of_the_bulk_must_be_lost(counts, far):
    scaled = {number: 100 * count for number, count in counts.items()}
    assert splits({**scaled, 1000: 1}, lost=3.0) is far


@pytest.mark.parametrize(("lost", "far"), [(2.99, False), (3.0, True), (9.99, True)])
@pytest.mark.parametrize("exponent", [-4, 0, 4])
def test_a_bin_is_lost_where_all_of_it_is(lost, far, exponent):
    found = split_outliers(tensor({2: 95_000, 9: 5_000, 1000: 1}, exponent), lost * 2.0**exponent)
    assert (found is not None) is far


@pytest.mark.parametrize(("last", "far"), [(3, False), (4, True)])
def test_a_bulk_needs_some_bins(last, far):
    assert splits({last: 100_000, 1000: 1}) is far


@pytest.mark.parametrize(("outliers", "far"), [(9, True), (10, True), (11, False)])
def test_outliers_are_one_in_ten_thousand_at_most_zeros_included(outliers, far):
    assert splits({9: 50_000 - outliers, 1000: outliers}, zeros=50_000) is far


def mask(low: float, nearest: int, high: float = 5.0, **changes: float) -> bool:
    """Whether many values from ``nearest`` down to ``low`` are a mask."""
    found = tensor({9: 1000, nearest: 500, int(-low): 500}, min=low, max=high, amax=-low, **changes)
    split = split_outliers(found, 10.0)
    assert split is None or (split.is_mask and split.share == 0.5)
    return split is not None


@pytest.mark.parametrize(
    ("low", "nearest", "is_mask"),
    [
        (-1000.0, 950, True),
        (-999.5, 950, False),
        (-2000.0, 1800, True),
        (-2000.0, 1799, False),
        (-10_000.0, 9000, True),
    ],
)
def test_a_mask_is_large_and_about_equal(low, nearest, is_mask):
    assert mask(low, nearest) is is_mask


@pytest.mark.parametrize(("high", "is_mask"), [(5.0, True), (-3.0, True), (1799.0, True), (1800.0, False)])
def test_a_mask_is_negative(high, is_mask):
    assert mask(-2000.0, 1800, high) is is_mask


def test_large_positive_values_are_no_mask():
    found = tensor({9: 1000, 2000: 1000}, min=-9.0, max=2000.0, amax=2000.0)
    assert split_outliers(found, 10.0) is None


@pytest.mark.parametrize("counts", [{}, {9: 5}, {9: 5, 10: 5}, {0: 3, 1: 9}])
def test_without_a_gap_there_is_no_bulk(counts):
    seen = TensorRange(-10.0, 10.0, 10.0, 10, counted(counts))
    assert split_outliers(seen, ALL) is None


def test_without_a_histogram_there_is_no_bulk():
    assert split_outliers(TensorRange(-1.0, 1.0, 1.0, 9), 1.0) is None
    assert split_outliers(TensorRange(0.0, 0.0, 0.0, 9, Histogram.empty()), 1.0) is None
