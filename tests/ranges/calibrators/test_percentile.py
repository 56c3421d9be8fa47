"""Percentile against numpy on the values themselves."""

from dataclasses import replace

import numpy as np
import pytest
from support.magnitudes import seen

from qdqtool import formats
from qdqtool.errors import ArgumentError
from qdqtool.ranges import calibrators

PERCENTILE = calibrators.get("percentile")
GOAL = calibrators.Goal(format=formats.get("int8"))


@pytest.mark.parametrize("percentile", [50, 90, 99, 99.9, 99.99])
def test_it_is_the_percentile_of_the_magnitudes_within_a_bin(values, percentile):
    found, magnitudes = seen(values), np.abs(values).astype(np.float64)
    low, high = (
        np.percentile(magnitudes, percentile, method="lower"),
        np.percentile(magnitudes, percentile, method="higher"),
    )
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


@pytest.mark.parametrize(
    ("method", "percentile", "message"),
    [
        ("percentile", 49, "percentile is 49; legal: 50 to 100"),
        ("percentile", float("nan"), "percentile is nan; legal: 50 to 100"),
        ("auto", 99.9, "percentile is set, and calibration method 'auto' does not read it"),
    ],
)
def test_a_percentile_that_means_nothing_is_refused(method, percentile, message):
    with pytest.raises(ArgumentError, match=message):
        calibrators.check_percentile(method, percentile)
