"""What counts as far away, at the boundary of each condition."""

from dataclasses import replace

import pytest
from support.magnitudes import counted

from qdqtool.quantization.ranges.calibrators._density import split_outliers
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import TensorRange

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
