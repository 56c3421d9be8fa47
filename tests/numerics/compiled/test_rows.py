"""Kernels for float32: integer rows and small floats against exact arithmetic, ranges against NumPy."""

import numpy as np
import pytest
from support import numbers, rational

from qdqtool.numerics import formats, kernels
from qdqtool.numerics.granularity import Blocked, PerAxis, PerTensor

pytest.importorskip("numba")

from qdqtool.numerics.compiled.rows import SHORT, SPREAD

NAMES = [name for name in numbers.QUANTIZED if kernels.supports(formats.get(name))]
FLOATS = [name for name in NAMES if formats.get(name).kind == "float"]
ONE = np.asarray(np.float32(1))


@pytest.mark.parametrize("granularity", [PerAxis(0), PerAxis(1), Blocked(1, 7), Blocked(0, 3)], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_codes_are_those_of_exact_arithmetic(name, granularity):
    """One scale a row and one for each element of a row, with zero points where the format has them."""
    fmt, rng = formats.get(name), np.random.default_rng(2)
    scale = numbers.scales(rng, granularity.scale_shape((10, 20)), "float32")
    x = numbers.values(rng, np.full((10, 20), np.float32(0.5)), fmt, "float32")
    zero = None
    if fmt.zero_point == "any":
        zero = np.asarray(rng.integers(int(fmt.low), int(fmt.high) + 1, scale.shape), np.float32)
    codes = kernels.quantize(x, scale, fmt, granularity, zero)
    numbers.assert_codes(codes, rational.quantize(x, scale, name, granularity, zero), fmt)


@pytest.mark.parametrize("name", FLOATS)
def test_every_boundary_between_two_small_floats_falls_where_the_layout_has_it(name):
    """All midpoints between neighbouring values and their float32 neighbours, both signs, and every special."""
    real = np.float32(sorted(float(size) for size in rational.magnitudes(name)))
    middle = (real[1:] + real[:-1]) / 2
    around = [real, middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9))]
    x = np.concatenate([*around, np.float32([np.inf, np.nan, 1e-45, 3e38])])
    x = np.concatenate([x, -x])
    codes = kernels.quantize(x, ONE, formats.get(name), PerTensor(), None)
    numbers.assert_codes(codes, rational.quantize(x, ONE, name, PerTensor()), formats.get(name))


@pytest.mark.parametrize("block", [1, 3, SHORT, SHORT + 1])
@pytest.mark.parametrize("length", [SPREAD - 1, SPREAD + 70])
def test_short_rows_of_floats_get_their_own_scales(block, length):
    """Scales of powers of two make codes that NumPy computes without rounding twice."""
    granularity, rng = Blocked(1, block), np.random.default_rng(block)
    scale = np.exp2(rng.integers(-3, 4, granularity.scale_shape((3, length)))).astype(np.float32)
    x = rng.integers(-48, 49, (3, length)).astype(np.float32)
    wide = np.repeat(scale, block, axis=1)[:, :length]
    fmt = formats.get("float8e4m3fn")
    expected = np.clip(x / wide, fmt.low, fmt.high).astype(fmt.dtype)
    codes = kernels.quantize(x, scale, fmt, granularity, None)
    np.testing.assert_array_equal(codes.view(np.uint8), expected.view(np.uint8))


def test_ranges_leave_out_what_is_not_finite_and_order_signed_zeros_as_numbers():
    x = np.float32([[np.nan, -3, 2, np.inf], [-np.inf, np.nan, np.inf, np.nan], [-0.0, 0.0, 1e-45, -1e-45]])
    low, high = kernels.ranges(x, PerAxis(0))
    np.testing.assert_array_equal(low, np.float32([-3, 0, -1e-45]))
    np.testing.assert_array_equal(high, np.float32([2, 0, 1e-45]))


@pytest.mark.parametrize("name", ["int8", "float8e5m2"])
def test_a_zero_scale_divides_as_ieee_754_does(name):
    x, fmt = np.float32([1, -1, 0, np.nan]), formats.get(name)
    codes = kernels.quantize(x, np.float32([0]), fmt, PerTensor(), None)
    nan = np.nan if fmt.has_nan else fmt.low
    np.testing.assert_array_equal(codes.astype(np.float32), [fmt.high, fmt.low, nan, nan])
