"""Histograms against counting of exact magnitudes, and merging against counting together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import counted, histogram

from qdqtool.numerics.counting import BINS
from qdqtool.quantization.ranges.histogram import Histogram, decode_counts, encode_counts, exponent_for, widen

FLOATS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(0.0), min_size=1, max_size=20)


def test_nothing_has_no_exponent_and_no_counts():
    assert Histogram.empty() == Histogram(None, np.zeros(BINS, np.int64), 0)


@given(FLOATS, FLOATS)
def test_merging_is_counting_together(left, right):
    one, two = (histogram(np.array(values, np.float32)) for values in (left, right))
    assert one.merge(two) == two.merge(one) == histogram(np.array([*left, *right], np.float32))
    assert one.merge(Histogram.empty()) == Histogram.empty().merge(one) == one


@given(st.floats(5e-324, 1.7e308))
def test_the_largest_magnitude_lies_in_the_upper_half_of_the_bins(amax):
    exponent = exponent_for(amax)
    assert exponent is not None
    assert BINS // 2 <= math.floor(math.ldexp(amax, -exponent)) < BINS
    assert exponent_for(0.0) is None


@pytest.mark.parametrize("doublings", [-1, 0, 1, 2, 13, 14, 15, 40])
def test_wide_bins_hold_the_counts_of_narrow_ones(doublings):
    counts = np.random.default_rng(2).integers(0, 5, BINS)
    wanted = np.zeros(BINS, np.int64)
    for number, count in enumerate(counts.tolist()):
        wanted[number >> max(doublings, 0)] += count
    assert np.array_equal(widen(counts, doublings), wanted)
    assert np.array_equal(Histogram(3, counts).widened(3 + doublings), wanted)


def test_counts_of_zeros_alone_are_as_wide_as_any():
    assert np.array_equal(Histogram(None, np.zeros(BINS, np.int64), 4).widened(7), np.zeros(BINS))


@pytest.mark.parametrize(("exponent", "width"), [(-3, 0.125), (0, 1.0), (2, 4.0), (None, 1.0)])
def test_edges_are_multiples_of_the_width(exponent, width):
    edges = Histogram(exponent, np.zeros(BINS, np.int64)).edges()
    assert (len(edges), edges[0], edges[1], edges[-1]) == (BINS + 1, 0.0, width, BINS * width)


@pytest.mark.parametrize("other", [counted({3: 2}), counted({3: 1}, 1), counted({3: 1}, 0, 1), counted({4: 1}), None])
def test_histograms_with_any_difference_are_not_equal(other):
    assert counted({3: 1}) == counted({3: 1})
    assert counted({3: 1}) != other


def padded(counts: list[int]) -> np.ndarray:
    return np.array(counts + [0] * (BINS - len(counts)), np.int64)


@given(st.lists(st.integers(0, 3) | st.integers(0, 2**40), max_size=40))
def test_reading_gives_the_same_counts(counts):
    assert np.array_equal(decode_counts(encode_counts(padded(counts))), padded(counts))


@pytest.mark.parametrize(
    ("counts", "text"),
    [([], ""), ([3, *[0] * 40, 17], "3 0*40 17"), ([0, 0, 5, 5], "0*2 5*2"), ([1] * BINS, f"1*{BINS}"), ([7], "7")],
)
def test_runs_are_joined_and_zeros_at_the_end_left_out(counts, text):
    assert encode_counts(padded(counts)) == text


@pytest.mark.parametrize("text", ["1  2", " 1", "1 ", "a", "-1", "1.5", "1*", "*2", "1*2*3", "1_0", "٣", "9" * 40])
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match="are no list such as"):
        decode_counts(text)


def test_too_many_bins_or_values_are_refused():
    with pytest.raises(ValueError, match="are 16385; a histogram has 16384"):
        decode_counts("1*16385")
    with pytest.raises(ValueError, match="more values than a tensor can hold"):
        decode_counts(f"{10**18}*16384")


def test_a_histogram_may_be_full_and_hold_as_much_as_a_tensor_can():
    assert decode_counts(f"1*{BINS}").sum() == BINS
    assert decode_counts(f"{2**62 - 1} 1")[:2].tolist() == [2**62 - 1, 1]
    with pytest.raises(ValueError, match="add up to more values than a tensor can hold"):
        decode_counts(f"{2**62 - 1} 1*2")
    assert decode_counts(f"{2**60} {2**60}*3")[:4].tolist() == [2**60] * 4


@pytest.mark.parametrize(("length", "is_read"), [(32, True), (33, False)])
def test_a_run_has_32_characters_at_most(length, is_read):
    text = "7*1".rjust(length, "0")
    if is_read:
        assert decode_counts(text)[:2].tolist() == [7, 0]
        return
    with pytest.raises(ValueError, match="are no list such as '3 0\\*40 17'"):
        decode_counts(text)


def test_a_run_of_none_and_no_text_are_nothing():
    assert not decode_counts("").any()
    assert decode_counts("5*0 3")[:2].tolist() == [3, 0]
