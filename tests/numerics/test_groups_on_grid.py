"""Scales are found again of values that are codes times scales, and of no others."""

import ml_dtypes
import numpy as np
import pytest

from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor
from qdqtool.numerics.groups import scale_on_grid

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
