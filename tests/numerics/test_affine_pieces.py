"""Walking arrays with their scales: every element once, with the scale that ONNX gives it, in small pieces."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import rational

from qdqtool.errors import ArgumentError
from qdqtool.numerics import affine as module
from qdqtool.numerics.affine import PIECE, pieces
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor


@st.composite
def layouts(draw):
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=4)))
    if not shape:
        return shape, PerTensor()
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    return shape, draw(st.sampled_from([PerTensor(), PerAxis(axis), Blocked(axis, draw(st.integers(1, 7)))]))


@given(layouts(), st.integers(1, 30))
@example(((2, 6, 3), Blocked(1, 4)), 30)
@example(((2, 0), Blocked(1, 4)), 30)
@example(((0, 2), PerAxis(1)), 30)
def test_every_element_comes_once_with_its_own_scale(layout, size):
    shape, granularity = layout
    x = np.arange(int(np.prod(shape))).reshape(shape)
    scale_shape = granularity.scale_shape(shape)
    scale = np.arange(int(np.prod(scale_shape))).reshape(scale_shape) + 1000
    out, times = np.zeros(shape, int), np.zeros(shape, int)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", size)
        for (values, target, count), (step, nothing) in pieces((x, out, times), (scale, None), granularity):
            assert values.shape == step.shape == target.shape
            assert nothing is None
            assert values.size <= size
            target[...] = values * 10_000 + step
            count[...] += 1
    assert (times == 1).all()
    for index in np.ndindex(shape):
        assert out[index] == x[index] * 10_000 + scale[rational.parameter_index(index, granularity)]


def test_a_large_array_comes_in_pieces_that_fit_a_cache_and_are_not_tiny():
    x = np.zeros((3, 5, 40_000), np.float32)
    sizes = [values.size for (values,), _ in pieces((x,), (np.float32(1).reshape(()),), PerTensor())]
    assert sum(sizes) == x.size
    assert max(sizes) <= PIECE
    assert len(sizes) <= 2 * x.size / PIECE + 1


def test_scales_are_not_spread_out_in_memory():
    x, scale = np.zeros((64, 4096), np.float32), np.ones(64, np.float32)
    for _, (step,) in pieces((x,), (scale,), PerAxis(0)):
        assert np.shares_memory(step, scale)
        assert step.strides[1] == 0


def test_a_one_element_vector_is_taken_for_a_scalar():
    [((values,), (step,))] = pieces((np.zeros((2, 3)),), (np.float32([5]),), PerTensor())
    np.testing.assert_array_equal(step, np.full(values.shape, 5))


def test_a_parameter_of_another_shape_is_refused():
    with pytest.raises(ArgumentError, match=r"scale has shape \[2\]; per-axis 0 .* needs \[3\]"):
        list(pieces((np.zeros((3, 2)),), (np.ones(2),), PerAxis(0)))
