"""MSE against brute force: every value of the tensor quantized with every threshold, by our exact core."""

from dataclasses import replace

import numpy as np
import pytest
from support.magnitudes import seen

from qdqtool import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.ranges import calibrators
from qdqtool.ranges.calibrators._density import Density, squared_error

MSE = calibrators.get("mse")
GOAL = calibrators.Goal(format=formats.get("int8"))
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
