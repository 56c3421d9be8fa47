"""Kernels for scales of float4e2m1: errors and magnitudes against NumPy written out plainly."""

import numpy as np
import pytest
from support import rational

from qdqtool.numerics.search import evaluate_by_rows

pytest.importorskip("numba")

from qdqtool.numerics.compiled.tiles import LANES, evaluate, magnitudes

FLOAT4 = np.float64(sorted(float(size) for size in rational.magnitudes("float4e2m1")))
WIDTHS = pytest.mark.parametrize("width", [1, LANES - 1, LANES, LANES + 1, 3 * LANES])


def drawn(width, height=16):
    rng = np.random.default_rng(width)
    tile = rng.normal(size=(height, width)).astype(np.float32)
    steps = (np.abs(tile).max(axis=0) / rng.uniform(3, 8, (7, width))).astype(np.float32)
    return tile, steps


def squared_error(tile, step):
    """The error of nearest values of the format, found by looking at every one of them."""
    wide, step = tile.astype(np.float64), step.astype(np.float64)
    distance = np.abs(np.abs(wide)[..., None] - FLOAT4 * step[:, None])
    return np.square(distance.min(axis=-1)).sum(axis=0)


def found_for(tile, steps, evaluator=evaluate, start=np.inf):
    best, least = np.zeros(tile.shape[1], np.float32), np.full(tile.shape[1], start, np.float32)
    evaluator(tile, steps, np.float32(6), (best, least))
    return best, least


@WIDTHS
def test_the_step_of_the_least_error_is_found_for_every_group(width):
    tile, steps = drawn(width)
    best, least = found_for(tile, steps)
    errors = np.stack([squared_error(tile, step) for step in steps])
    np.testing.assert_allclose(least, errors.min(axis=0), rtol=1e-5)
    np.testing.assert_array_equal(best, np.take_along_axis(steps, errors.argmin(axis=0)[None], axis=0)[0])


@WIDTHS
def test_bits_are_those_of_the_numpy_twin(width):
    tile, steps = drawn(width)
    for compiled, twin in zip(found_for(tile, steps), found_for(tile, steps, evaluate_by_rows), strict=True):
        np.testing.assert_array_equal(compiled, twin)


def test_the_first_of_equal_candidates_stays_and_so_does_what_is_better_already():
    tile = np.float32([[1.0, 1.0], [-2.0, -2.0]])
    best, _ = found_for(tile, np.float32([[0.5, 0.5], [1.0, 1.0]]))  # both steps hit every value
    np.testing.assert_array_equal(best, [0.5, 0.5])
    best, least = found_for(tile, np.float32([[0.3, 0.3]]), start=1e-9)
    np.testing.assert_array_equal(best, [0, 0])
    np.testing.assert_array_equal(least, np.float32([1e-9, 1e-9]))


def test_magnitudes_are_the_largest_of_each_group_and_nan_counts_as_larger_than_all():
    tile = np.float32([[1, -2, 0, np.nan, -np.inf], [-3, 1, -0.0, 1e38, 5]])
    found = np.empty(5, np.float32)
    magnitudes(tile.view(np.int32), found.view(np.int32))
    np.testing.assert_array_equal(found, [3, 2, 0, np.nan, np.inf])
