"""Shapes of scales by granularity, and how a scale spreads over a tensor."""

import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.numerics.granularity import (
    Blocked,
    PerAxis,
    PerTensor,
    as_onnx_reads,
    check_scale_shape,
    expand,
    normalize_axis,
)


@pytest.mark.parametrize(
    ("granularity", "shape", "expected"),
    [
        (PerTensor(), (2, 3), ()),
        (PerTensor(), (), ()),
        (PerAxis(0), (2, 3), (2,)),
        (PerAxis(-1), (2, 3), (3,)),
        (Blocked(1, 4), (2, 8), (2, 2)),
        (Blocked(-1, 4), (2, 9), (2, 3)),
        (Blocked(0, 32), (5, 7), (1, 7)),
        (Blocked(0, 4), (0, 7), (0, 7)),
    ],
)
def test_scale_shapes(granularity, shape, expected):
    assert granularity.scale_shape(shape) == expected


def test_names_for_people():
    assert [str(g) for g in (PerTensor(), PerAxis(1), Blocked(0, 32))] == [
        "per-tensor",
        "per-axis 1",
        "blocks of 32 on axis 0",
    ]


def test_expanded_scales_broadcast_against_the_tensor():
    scale = np.float32([1, 2])
    assert expand(np.float32([3]), (2, 2), PerTensor()).shape == ()
    assert expand(scale, (2, 3, 4), PerAxis(0)).shape == (2, 1, 1)
    spread = expand(np.float32([[1, 2]]), (1, 5), Blocked(1, 3))
    np.testing.assert_array_equal(spread, [[1, 1, 1, 2, 2]])


def test_a_one_element_vector_counts_as_a_scalar():
    check_scale_shape((1,), (4, 4), PerTensor())
    with pytest.raises(ArgumentError, match=r"scale has shape \[1\]; per-axis 0 .* needs \[4\]"):
        check_scale_shape((1,), (4, 4), PerAxis(0))


def test_axes_count_from_either_end():
    assert [normalize_axis(axis, 3) for axis in range(-3, 3)] == [0, 1, 2, 0, 1, 2]


def test_a_scale_of_another_shape_is_not_expanded():
    with pytest.raises(ArgumentError, match=r"scale has shape \[3\]; per-axis 0 .* needs \[2\]"):
        expand(np.ones(3, np.float32), (2, 3), PerAxis(0))


@pytest.mark.parametrize(
    ("axis", "rank", "message"),
    [(2, 2, "axis is 2; a tensor of rank 2 has axes -2 to 1"), (0, 0, "axes none, the tensor is a scalar")],
)
def test_axes_outside_the_rank_are_refused(axis, rank, message):
    with pytest.raises(ArgumentError, match=message):
        normalize_axis(axis, rank)


def test_a_block_has_at_least_one_element():
    with pytest.raises(ArgumentError, match="block_size is 0; it must be at least 1"):
        Blocked(0, 0)


@pytest.mark.parametrize(
    ("scale_shape", "rank", "block_size", "expected"),
    [
        ((), 2, 4, PerTensor()),
        ((1,), 1, 4, PerTensor()),
        ((3,), 2, 0, PerAxis(1)),
        ((3,), 1, 0, PerAxis(1)),
        ((3,), 2, 4, PerAxis(1)),
        ((3,), None, 4, PerAxis(1)),
        ((3,), 1, 4, Blocked(1, 4)),
        ((3, 1), 2, 4, Blocked(1, 4)),
        ((3, 1), 2, 1, Blocked(1, 1)),
        (("n", 1), None, 4, Blocked(1, 4)),
        ((3, 1), 2, 0, None),
        ((3, 1), 2, -4, None),
    ],
)
def test_onnx_reads_a_scale_by_its_shape_the_rank_of_the_data_and_the_block_size(
    scale_shape, rank, block_size, expected
):
    assert as_onnx_reads(scale_shape, rank, 1, block_size) == expected
