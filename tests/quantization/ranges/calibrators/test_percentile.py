"""Percentile against numpy on the values themselves."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import counted, pieces, seen
from support.refusals import refused

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators.percentile import magnitude_at
from qdqtool.quantization.ranges.types import TensorRange

PERCENTILE = calibrators.get("percentile")
GOAL = calibrators.RangeGoal(format=formats.get("int8"))


@pytest.mark.parametrize("percentile", [50, 90, 99, 99.9, 99.99])
def test_it_is_the_percentile_of_the_magnitudes_within_a_bin(values, percentile):
    found, magnitudes = seen(values), np.abs(values).astype(np.float64)
    low, high = (np.percentile(magnitudes, percentile, method=method) for method in ("lower", "higher"))
    width = 2.0**found.histogram.exponent
    if high == 0:  # half of what a Relu makes: all other values would be clipped to 0
        low = high = found.amax
    assert low - width <= PERCENTILE.threshold(found, replace(GOAL, percentile=percentile)).amax <= high + width


def test_inside_a_bin_it_is_interpolated():
    values = np.linspace(0, 1, 1_000_001, dtype=np.float32)[1:]
    for percentile in (12.3456, 50.0005, 99.9987):
        amax = PERCENTILE.threshold(seen(values), replace(GOAL, percentile=percentile)).amax
        assert amax == pytest.approx(percentile / 100, abs=2e-6)  # two of the values; a bin is 6e-5 wide


def test_it_grows_with_the_percentile(values):
    found = seen(values)
    steps = [PERCENTILE.threshold(found, replace(GOAL, percentile=p)).amax for p in (80, 95, 99, 99.9, 99.999, 100)]
    assert steps == sorted(steps)
    assert steps[-1] == found.amax


def test_a_tensor_of_almost_nothing_but_zeros_is_not_clipped_to_zero():
    values = np.zeros(100_000, np.float32)
    values[7] = 3
    threshold = PERCENTILE.threshold(seen(values), GOAL)
    assert threshold.amax == 3
    assert threshold.reason == "nothing is clipped: 99.99 % of the values are 0"


UNREAD = "percentile is set, but calibration method '{}' does not use it; only percentile does"


@pytest.mark.parametrize(
    ("method", "percentile", "message"),
    [
        ("percentile", 49, "percentile is 49; legal: 50 to 100"),
        ("percentile", 49.99, "percentile is 49.99; legal: 50 to 100"),
        ("percentile", 100.01, "percentile is 100.01; legal: 50 to 100"),
        ("percentile", float("nan"), "percentile is nan; legal: 50 to 100"),
        ("auto", 99.9, UNREAD.format("auto")),
        ("mse", 99, UNREAD.format("mse")),
    ],
)
def test_a_percentile_that_means_nothing_is_refused(method, percentile, message):
    with refused(ArgumentError, message):
        calibrators.check_percentile(method, percentile)


@given(
    st.dictionaries(st.integers(0, 40), st.integers(1, 1000), min_size=1, max_size=6),
    st.integers(-3, 3),
    st.integers(0, 2000),
    st.fractions(0, 1, max_denominator=1000),
)
def test_it_is_where_the_share_of_the_values_is_reached(counts, exponent, zeros, share):
    found = counted(counts, exponent, zeros)
    wanted = share * (sum(counts.values()) + zeros)
    amax = Fraction(magnitude_at(found, float(share)))
    spans = list(pieces(found))
    below = zeros + sum(
        count * min(max(amax - low, Fraction(0)), high - low) / (high - low) for low, high, count in spans
    )
    assert float(below) == pytest.approx(max(float(wanted), zeros), abs=1e-6)


def test_the_percentile_is_not_above_the_largest_magnitude():
    found = TensorRange(-3.25, 1.0, 3.25, 10, counted({0: 4, 3: 6}))
    assert PERCENTILE.threshold(found, replace(GOAL, percentile=100)).amax == 3.25
    expected = calibrators.Threshold(0.5, "percentile", "20 % of the values are not clipped")
    assert PERCENTILE.threshold(found, replace(GOAL, percentile=20)) == expected


@pytest.mark.parametrize("percentile", [None, 50, 100])
def test_a_percentile_at_a_bound_is_legal(percentile):
    calibrators.check_percentile("percentile", percentile)
    calibrators.check_percentile("percentile" if percentile else "max", percentile)


def test_a_goal_has_the_default_percentile():
    values = seen(np.arange(1, 100_001, dtype=np.float32))
    assert PERCENTILE.threshold(values, GOAL).reason == "99.99 % of the values are not clipped"
    assert PERCENTILE.threshold(values, GOAL).amax == pytest.approx(99_990, abs=8)


def test_values_in_the_last_bin_are_counted():
    assert magnitude_at(counted({0: 5, (1 << 14) - 1: 5}), 0.9) == (1 << 14) - 0.2
