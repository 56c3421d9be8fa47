"""Statistics of one tensor, however its values come, against those of all values at once."""

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import seen

from qdqtool.numerics.counting import Counter
from qdqtool.quantization.ranges.collector import TensorStatistics, range_of
from qdqtool.quantization.ranges.histogram import Histogram
from qdqtool.quantization.ranges.types import UNSEEN, TensorRange

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just(0.0)


@given(st.lists(FLOATS, min_size=1, max_size=30), st.lists(st.integers(0, 30), max_size=5))
def test_the_grouping_of_values_makes_no_difference(values, cuts):
    plain, counting = TensorStatistics(), TensorStatistics(Counter())
    for start, stop in pairwise([0, *sorted(cuts), len(values)]):
        part = np.array(values[start:stop], np.float32)
        assert plain.add(part)
        assert counting.add(part)
    wanted = seen(np.array(values, np.float32))
    assert counting.result() == wanted
    assert plain.result() == TensorRange(wanted.min, wanted.max, wanted.amax, wanted.count)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("counter", [None, Counter()])
def test_values_that_are_not_finite_are_refused_and_not_counted(bad, counter):
    statistics = TensorStatistics(counter)
    assert statistics.add(np.float32([1, -2]))
    before = statistics.result()
    assert not statistics.add(np.float32([1, bad, 7]))
    assert statistics.result() == before


@pytest.mark.parametrize("counter", [None, Counter()])
def test_without_values_there_is_no_histogram(counter):
    statistics = TensorStatistics(counter)
    assert statistics.add(np.zeros((3, 0), np.float32))
    assert statistics.result() == UNSEEN


def test_zeros_alone_have_no_exponent():
    statistics = TensorStatistics(Counter())
    statistics.add(np.zeros(5, np.float32))
    statistics.add(np.zeros(2, np.float32))
    assert statistics.result() == TensorRange(0.0, 0.0, 0.0, 7, Histogram(None, Histogram.empty().counts, 7))


def test_a_result_does_not_change_when_more_is_added():
    statistics = TensorStatistics(Counter())
    statistics.add(np.float32([1, 2]))
    before = statistics.result()
    statistics.add(np.float32([1, 0, 9]))
    assert before == seen(np.float32([1, 2]))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
def test_the_range_of_an_array_has_its_ends(dtype):
    assert range_of(np.array([[-3, 2], [-0.5, 0]], dtype)) == TensorRange(-3.0, 2.0, 3.0, 4)
    assert range_of(np.array([1, 4], dtype)) == TensorRange(1.0, 4.0, 4.0, 2)
    assert range_of(np.zeros(0, dtype)) == UNSEEN


def test_a_negative_zero_is_zero():
    found = range_of(np.float32([-0.0, -0.0]))
    assert not np.signbit([found.min, found.max, found.amax]).any()
