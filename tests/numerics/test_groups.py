"""Reductions over elements that share a scale, against one element at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.groups import ranges, reduce_groups


@st.composite
def layouts(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return shape, draw(st.sampled_from([PerTensor(), PerAxis(axis), Blocked(axis, draw(st.integers(1, 6)))]))


def grouped(x, granularity):
    """The elements of each group as lists, in an object array of the scale's shape."""
    groups = np.empty(granularity.scale_shape(x.shape), object)
    for where in np.ndindex(groups.shape):
        groups[where] = []
    for index in np.ndindex(x.shape):
        groups[rational.parameter_index(index, granularity)].append(x[index])
    return groups


@pytest.mark.parametrize(("ufunc", "plain"), [(np.maximum, max), (np.minimum, min), (np.add, sum)])
@given(layouts(), st.integers(0, 2**32))
def test_each_group_is_reduced_by_itself(ufunc, plain, layout, seed):
    shape, granularity = layout
    x = np.random.default_rng(seed).integers(-50, 50, shape)
    expected = np.vectorize(plain, otypes=[int])(grouped(x, granularity))
    found = reduce_groups(x, granularity, ufunc)
    assert found.shape == granularity.scale_shape(shape)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("granularity", [PerTensor(), PerAxis(1), Blocked(1, 4), Blocked(0, 4)], ids=str)
def test_a_group_without_elements_has_the_value_asked_for(granularity):
    found = reduce_groups(np.zeros((0, 6), np.float32), granularity, np.maximum, empty=7)
    np.testing.assert_array_equal(found, np.full(granularity.scale_shape((0, 6)), 7, np.float32))
    assert found.dtype == np.float32


@given(layouts(), st.integers(0, 2**32))
def test_ranges_span_the_finite_values_and_are_zero_without_any(layout, seed):
    shape, granularity = layout
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape).astype(np.float32)
    x[rng.random(shape) < 0.3] = rng.choice([np.nan, np.inf, -np.inf])
    low, high = ranges(x, granularity)
    for where, group in np.ndenumerate(grouped(x, granularity)):
        finite = [value if np.isfinite(value) else np.float32(0) for value in group]
        assert (low[where], high[where]) == (min(finite), max(finite))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_ranges_are_float32_whatever_the_values_are(dtype):
    low, high = ranges(np.array([[1.5, -2.0]], dtype), PerTensor())
    assert (low.dtype, high.dtype) == (np.float32, np.float32)
    assert (low, high) == (-2, 1.5)


def test_large_arrays_are_handed_to_the_kernels(monkeypatch):
    monkeypatch.setattr(kernels, "wanted", lambda _x: True)
    monkeypatch.setattr(kernels, "ranges", lambda _x, _granularity: ("low", "high"))
    assert ranges(np.ones((2, 3), np.float32), PerTensor()) == ("low", "high")
    low, high = ranges(np.float32([[1, 2, 3], [4, 5, 6]]), PerAxis(1))  # the kernels need neighbours with one scale
    np.testing.assert_array_equal([low, high], [[1, 2, 3], [4, 5, 6]])
    low, _ = ranges(np.zeros((0, 3), np.float32), PerTensor())  # nothing to hand on
    assert low == 0


def test_an_axis_outside_the_rank_is_refused():
    with pytest.raises(ArgumentError, match="axis is 2; a tensor of rank 2 has axes -2 to 1"):
        reduce_groups(np.zeros((2, 2)), PerAxis(2), np.add)
