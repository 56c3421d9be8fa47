"""The values of number formats, against the bit layouts of the ONNX and OCP texts."""

import numpy as np
import pytest
from support import numbers, rational

from qdqtool.numerics import formats
from qdqtool.numerics.rounding import magnitudes, representable, step_widths


@pytest.mark.parametrize("name", numbers.INTEGER)
def test_an_integer_format_has_every_integer_between_its_ends(name):
    low, high = rational.INTEGERS[name]
    np.testing.assert_array_equal(representable(formats.get(name)), list(range(low, high + 1)))


@pytest.mark.parametrize("name", numbers.FLOAT)
def test_a_small_float_has_the_finite_values_of_its_layout_and_one_zero(name):
    sizes = [float(size) for size in rational.magnitudes(name)]
    expected = sorted({sign * size for size in sizes for sign in (1, -1)})
    np.testing.assert_array_equal(representable(formats.get(name)), expected)


@pytest.mark.parametrize("name", numbers.FLOAT)
def test_magnitudes_begin_at_zero_and_end_at_the_largest_value(name):
    np.testing.assert_array_equal(magnitudes(formats.get(name)), sorted(map(float, rational.magnitudes(name))))


def test_magnitudes_of_a_signed_integer_leave_the_lowest_code_out():
    np.testing.assert_array_equal(magnitudes(formats.get("int4")), range(8))


def test_an_exponent_only_format_has_the_powers_of_two_of_the_ocp_text():
    values = representable(formats.get("float8e8m0"))
    np.testing.assert_array_equal(values, [2.0**exponent for exponent in range(-127, 128)])


@pytest.mark.parametrize("kind", ["float8e4m3fn", "float8e5m2", "float4e2m1"])
def test_a_step_of_a_float_format_is_the_gap_around_the_value(kind):
    fmt = formats.get(kind)
    grid = representable(fmt)
    gaps = np.diff(grid)
    assert np.array_equal(step_widths((grid[:-1] + grid[1:]) / 2, fmt), gaps)
    assert step_widths(np.float64([-1e9, 1e9]), fmt).tolist() == [gaps[0], gaps[-1]]
    # A value of the grid itself belongs to the gap below.
    assert np.array_equal(step_widths(grid[1:], fmt), gaps)


def test_a_step_of_an_integer_format_is_one_everywhere():
    assert np.array_equal(step_widths(np.float64([-300, 0.4, 7]), formats.get("int8")) * np.ones(3), np.ones(3))
