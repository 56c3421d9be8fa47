"""Reductions over elements that share a scale, against one element at a time."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats, kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.groups import BlockLayout, ranges, reduce_groups, scale_on_grid


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


# Numbered groups of a blocked tensor, against ONNX's rule for which scale belongs to which element.


@st.composite
def blocked_tensors(draw):
    """A tensor of distinct values, and blocks along one of its axes, counted from either end."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    values = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    return values, Blocked(axis, draw(st.integers(1, 6)))


def members(values, granularity):
    """The elements of every group in row-major order, by the scale's index; groups in the order of the scales."""
    shape = granularity.scale_shape(values.shape)
    found = {where: [] for where in np.ndindex(shape)}
    for index in np.ndindex(values.shape):
        found[rational.parameter_index(index, granularity)].append(float(values[index]))
    return list(found.values())


@given(blocked_tensors(), st.data())
def test_a_column_holds_one_group_filled_with_zeros(tensor, data):
    values, granularity = tensor
    blocks, expected = BlockLayout.of(values.shape, granularity), members(values, granularity)
    assert blocks.groups == len(expected)
    start = data.draw(st.integers(0, blocks.groups - 1))
    stop = data.draw(st.integers(start + 1, blocks.groups))
    tile = blocks.gather(values, slice(start, stop))
    padded = [group + [0.0] * (granularity.block_size - len(group)) for group in expected[start:stop]]
    assert tile.dtype == np.float32
    np.testing.assert_array_equal(tile, np.float32(padded).T)


def test_halves_are_gathered_as_the_float32_values_that_they_are():
    values = np.float16([[0.1, 65504.0, -6e-8]])
    tile = BlockLayout.of((1, 3), Blocked(1, 2)).gather(values, slice(0, 2))
    np.testing.assert_array_equal(tile, np.float32([[values[0, 0], values[0, 2]], [values[0, 1], 0]]))


def test_kernels_are_given_length_inner_block_and_groups_along_the_axis():
    blocks = BlockLayout.of((3, 10, 7), Blocked(1, 4))
    assert blocks.place == (10, 7, 4, 3)
    assert blocks.groups == 3 * 3 * 7


@given(st.integers(0, 50), st.integers(1, 60))
def test_chunks_cover_every_group_once(groups, size):
    seen = np.zeros(groups, int)

    def work(part):
        assert 0 < part.stop - part.start <= size
        assert part.stop <= groups
        seen[part] += 1

    BlockLayout(length=groups, inner=1, block=1, groups=groups).on_chunks(size, work)
    assert (seen == 1).all()


def test_a_failure_in_a_chunk_reaches_the_caller():
    def work(part):
        if part.start == 4:
            raise ValueError("chunk 4")

    with pytest.raises(ValueError, match="chunk 4"):
        BlockLayout(length=8, inner=1, block=1, groups=8).on_chunks(2, work)


# Scales are found again of values that are codes times scales, and of no others.


INT8, INT4, FP8 = (formats.get(name) for name in ("int8", "int4", "float8e4m3fn"))
ROWS = PerAxis(0)


def codes(shape: tuple[int, ...], low: int, high: int, *, ends: int | None) -> np.ndarray:
    """Random codes; each row has ``ends`` among them."""
    found = np.random.default_rng(0).integers(low, high + 1, shape).astype(np.float32)
    if ends is not None:
        found[:, 0] = ends
    return found


def scales(count: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(1e-3, 1e-2, (count, 1)).astype(np.float32)


@pytest.mark.parametrize("ends", [127, -127, -128])
def test_the_scale_of_each_row_is_found_to_the_bit(ends: int):
    step = scales(50)
    found = scale_on_grid(codes((50, 40), -127, 127, ends=ends) * step, INT8, ROWS)
    np.testing.assert_array_equal(found, step[:, 0])


def test_one_scale_of_the_tensor_is_found_where_rows_use_few_codes():
    small = codes((20, 30), -40, 40, ends=None)
    small[3, 3] = 127
    step = np.float32(0.0123)
    found = scale_on_grid(small * step, INT8, ROWS)
    np.testing.assert_array_equal(found, np.full(20, step))
    np.testing.assert_array_equal(scale_on_grid(small * step, INT8, PerTensor()), step)


def test_rows_that_were_multiplied_with_factors_are_found_within_a_tolerance():
    given = codes((20, 30), -100, 100, ends=100)
    given[0, 0] = 127
    factors = np.random.default_rng(2).uniform(0.5, 2, (20, 1)).astype(np.float32)
    moved = given * np.float32(0.01) * factors
    found = scale_on_grid(moved, INT8, ROWS, tolerance=2.0**-21)
    assert found is not None
    np.testing.assert_allclose(np.rint(moved / found[:, None]), given)
    np.testing.assert_allclose(found, 0.01 * factors[:, 0], rtol=1e-6)


def test_blocks_of_int4_and_fp8():
    step = scales(6)
    given = codes((6, 8), -7, 7, ends=7)
    given[:, 4] = -8
    blocks = np.repeat(np.repeat(step, 2, axis=1) * [1, 2], 4, axis=1).astype(np.float32)
    found = scale_on_grid(given * blocks, INT4, Blocked(1, 4))
    np.testing.assert_array_equal(found, blocks[:, ::4])
    values = np.random.default_rng(3).normal(size=(6, 50)).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    values[:, 0] = 448
    np.testing.assert_array_equal(scale_on_grid(values * step, FP8, ROWS), step[:, 0])


def test_a_row_of_zeros_has_the_scale_1():
    given = codes((3, 8), -127, 127, ends=127) * np.float32(0.5)
    given[1] = 0
    np.testing.assert_array_equal(scale_on_grid(given, INT8, ROWS), [0.5, 1, 0.5])


@pytest.mark.parametrize("tolerance", [0.0, 2.0**-21])
def test_ordinary_weights_lie_on_no_grid(tolerance: float):
    weights = np.random.default_rng(4).normal(size=(16, 64)).astype(np.float32)
    assert scale_on_grid(weights, INT8, ROWS, tolerance=tolerance) is None
    mixed = codes((16, 64), -127, 127, ends=127) * scales(16)
    mixed[7] = weights[7]
    assert scale_on_grid(mixed, INT8, ROWS, tolerance=tolerance) is None, "one row of sixteen"


def test_float16_and_bfloat16_keep_their_type():
    for dtype in (np.float16, ml_dtypes.bfloat16):
        given = (codes((4, 8), -127, 127, ends=127) * np.float32(0.25)).astype(dtype)
        found = scale_on_grid(given, INT8, ROWS)
        assert found is not None
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.astype(np.float32), np.full(4, 0.25))
