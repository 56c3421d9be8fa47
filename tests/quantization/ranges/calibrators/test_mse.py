"""MSE against brute force: every value of the tensor quantized with every threshold, by our exact core."""

from dataclasses import replace

import numpy as np
import pytest
from support.magnitudes import counted, seen

from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators._density import Density, squared_error
from qdqtool.quantization.ranges.calibrators.mse import search

MSE = calibrators.get("mse")
GOAL = calibrators.RangeGoal(format=formats.get("int8"))
FORMATS = [formats.get(name) for name in ("int8", "int4", "float8e4m3fn", "float8e5m2", "float4e2m1")]
NEAR = 1.01
"""How near to the least error of all thresholds: thresholds are tried 2.1 % apart, and where the optimum is steepest
(few values, int4) half of such a step costs just under a hundredth (0.04 dB)."""


def error(values: np.ndarray, amax: float, fmt: NumberFormat) -> float:
    codes = fake_quantize(np.abs(values), np.float32(amax / fmt.high).reshape(()), fmt, PerTensor())
    return float(((codes.astype(np.float64) - np.abs(values)) ** 2).sum())


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
def test_no_threshold_has_a_smaller_error_on_the_values_themselves(fmt, values):
    amax = float(np.abs(values).max())
    least = min(error(values, amax * factor, fmt) for factor in np.linspace(0.02, 1, 197))
    found = MSE.threshold(seen(values), replace(GOAL, format=fmt)).amax
    assert error(values, found, fmt) <= NEAR * least


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("factor", [1.0, 0.7, 0.31, 0.1])
def test_the_error_from_the_histogram_is_that_of_the_values(fmt, factor):
    values = np.random.default_rng(11).laplace(size=100_000).astype(np.float32)
    found = seen(values)
    amax = found.amax * factor
    estimate = squared_error(Density.of(found.histogram, found.amax), np.array([amax]), fmt)[0]
    assert estimate == pytest.approx(error(values, amax, fmt), rel=5e-3)


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("largest", [4.1796875, 6.0, 7.24609375, 1000.0], ids=str)
def test_a_largest_magnitude_on_the_bound_of_a_bin_does_not_blur_the_error(largest, fmt):
    """Values of float16 tensors lie there, and the 6 of a Relu6: one that goes astray outweighs the errors of all."""
    values = np.random.default_rng(12).uniform(0, 0.9 * largest, size=20_000).astype(np.float16).astype(np.float32)
    values[0] = largest
    found = seen(values)
    for amax in np.array([1.0, 0.99, 0.9]) * largest:
        estimate = squared_error(Density.of(found.histogram, found.amax), np.array([amax]), fmt)[0]
        assert estimate == pytest.approx(error(values, amax, fmt), rel=0.02)


TAILS = {
    "laplace": np.exp(-np.arange(300) / 24),
    "normal": np.exp(-((np.arange(300) / 90) ** 2)),
    "uniform": np.ones(200),
    "cubic": 1 / (1 + np.arange(300) / 20) ** 3,
}
"""Densities that fall evenly, so that the error has one wide minimum."""
TRIED = np.geomspace(1 / 32, 1, 1_500)
"""Shares of the largest magnitude, 0.23 % apart: finer than any that the search tries."""


@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("tail", TAILS)
def test_the_search_finds_the_least_error_of_all_thresholds(tail, fmt):
    shares = (TAILS[tail] * 1e6).astype(int).tolist()
    amax = len(shares) - 0.25
    density = Density.of(counted(dict(enumerate(shares))), amax)
    errors = squared_error(density, amax * TRIED, fmt)
    found = search(density, fmt)
    assert errors.min() / 1.002 <= found.error <= errors.min() * 1.0005
    assert found.error == pytest.approx(squared_error(density, np.array([found.amax]), fmt)[0], rel=1e-9)
    assert found.unclipped_error == pytest.approx(errors[-1], rel=1e-9)


@pytest.mark.parametrize(("ratio", "share"), [(8, None), (300, 2 ** -(8 + 1 / 16))])
def test_thresholds_reach_down_to_the_neighbours_of_one_in_256(ratio, share):
    """Nearly all values lie below 0.5, so that the best threshold of int4 lies there too."""
    histogram = counted({**dict.fromkeys(range(16), 10**12), 32 * ratio - 1: 1}, -5)
    found = search(Density.of(histogram, float(ratio)), formats.get("int4"))
    assert found.amax == pytest.approx(0.49 if share is None else share * ratio, rel=0.05 if share is None else 1e-12)


def test_the_reason_names_the_grid():
    found = MSE.threshold(seen(np.linspace(-1, 1, 99, dtype=np.float32)), GOAL)
    assert (found.method, found.reason, found.apart) == ("mse", "least squared error on int8", None)


def test_a_threshold_beyond_all_values_is_not_tried():
    """With 1.04 of the largest magnitude, most values would lie on the code before the last."""
    density = Density.of(counted({8_910: 10_000, 9_999: 3_000}), 10_000.0)
    assert search(density, formats.get("int4")).amax == 10_000.0
