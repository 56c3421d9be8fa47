"""Numbered groups of a blocked tensor, against ONNX's rule for which scale belongs to which element."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import rational

from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.groups import BlockLayout


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
