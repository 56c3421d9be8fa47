"""The text of counts gives back the counts, is short, and is read strictly."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.numerics.counting import BINS
from qdqtool.quantization.ranges.histogram import decode_counts, encode_counts


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
