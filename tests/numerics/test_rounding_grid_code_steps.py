"""Distances on the grid of a format: counted one code after the other, on every pair of codes."""

import ml_dtypes
import numpy as np
import pytest

from qdqtool.numerics import formats
from qdqtool.numerics.rounding import code_steps, unit_roundoff

FLOATS = ("float8e4m3fn", "float8e5m2", "float4e2m1")


def values(kind: str) -> np.ndarray:
    """All finite values of a float format, in order, each once."""
    fmt = formats.get(kind)
    codes = np.arange(2**fmt.bits, dtype=np.uint8).view(fmt.dtype).astype(np.float64)
    return np.unique(codes[np.isfinite(codes)])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int4", "uint4"])
def test_integers_are_as_many_steps_apart_as_they_differ(kind: str) -> None:
    fmt = formats.get(kind)
    codes = np.arange(int(fmt.low), int(fmt.high) + 1)
    left, right = (each.astype(fmt.dtype) for each in np.meshgrid(codes, codes))
    found = code_steps(left, right, fmt)
    assert found.dtype == np.float64
    assert np.array_equal(found, np.abs(codes[None, :] - codes[:, None]))


@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_as_many_steps_apart_as_values_lie_between_them(kind: str) -> None:
    fmt, grid = formats.get(kind), values(kind)
    left, right = (each.astype(fmt.dtype) for each in np.meshgrid(grid, grid))
    places = np.arange(grid.size)
    assert np.array_equal(code_steps(left, right, fmt), np.abs(places[None, :] - places[:, None]))


def test_nan_is_endlessly_far_from_numbers_and_near_to_nan() -> None:
    fmt = formats.get("float8e4m3fn")
    left, right = (np.array(each).astype(fmt.dtype) for each in ([np.nan, 1, np.nan], [1, np.nan, np.nan]))
    assert code_steps(left, right, fmt).tolist() == [np.inf, np.inf, 0]


@pytest.mark.parametrize(
    ("kind", "roundoff"),
    [(np.float32, -24), (np.float64, -24), (np.float16, -11), (ml_dtypes.bfloat16, -8)],
)
def test_a_rounding_is_off_by_half_the_epsilon_of_the_type(kind: type, roundoff: int) -> None:
    assert unit_roundoff(np.dtype(kind)) == 2.0**roundoff
