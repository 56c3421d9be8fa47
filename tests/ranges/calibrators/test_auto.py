"""The default: when it clips, when it does not, and what it does with values that lie far away from all others."""

import numpy as np
import pytest
from support.magnitudes import histogram, seen

from qdqtool import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.metrics import sqnr_db
from qdqtool.ranges import calibrators
from qdqtool.ranges.calibrators import clipped_fraction

AUTO = calibrators.get("auto")
INT8, FP8 = (calibrators.Goal(format=formats.get(name)) for name in ("int8", "float8e4m3fn"))
SCORES = np.random.default_rng(23).standard_normal((64, 64, 64)).astype(np.float32) * 3


def sqnr(values: np.ndarray, threshold: calibrators.Threshold, goal: calibrators.Goal = INT8) -> float:
    scale = np.float32(threshold.amax / goal.format.high).reshape(())
    return sqnr_db(values, fake_quantize(values, scale, goal.format, PerTensor())) or np.inf


def test_no_method_quantizes_a_tensor_better(values):
    best = max(sqnr(values, calibrators.get(name).threshold(seen(values), INT8)) for name in calibrators.names())
    assert sqnr(values, AUTO.threshold(seen(values), INT8)) >= best - 0.12  # GAIN is 0.09 dB, a step of the search 0.03


def test_long_tails_are_clipped_and_the_reason_says_what_that_saves():
    found = AUTO.threshold(seen(np.random.default_rng(23).laplace(size=100_000).astype(np.float32)), INT8)
    assert found.method == "mse"
    assert found.reason == "25% less squared error, with 5e-05 of the values clipped"


def test_evenly_spread_values_are_not_clipped():
    values = np.random.default_rng(23).uniform(-1, 1, 100_000).astype(np.float32)
    found = AUTO.threshold(seen(values), INT8)
    assert (found.method, found.amax) == ("max", np.abs(values).max())


def test_fp8_keeps_long_tails_that_int8_clips():
    values = seen(np.random.default_rng(23).laplace(size=100_000).astype(np.float32))
    assert AUTO.threshold(values, FP8).amax > 0.9 * values.amax > AUTO.threshold(values, INT8).amax


def test_nothing_but_zeros_has_the_threshold_zero():
    assert AUTO.threshold(seen(np.zeros(10, np.float32)), INT8).amax == 0


@pytest.mark.parametrize("far", [2.5e3, 3e4])
def test_a_stray_value_does_not_cost_all_others(far):
    values = SCORES.copy()
    values[5, 6, 7] = far
    found = AUTO.threshold(seen(values), INT8)
    assert found.reason.startswith("strays: 3.8e-06 of the values lie far away")
    assert sqnr(np.delete(values, np.argmax(values)), found) > 35


def test_a_mask_stays_a_mask_and_the_scores_stay_scores():
    masked = SCORES + np.where(np.tri(64), 0, -1e4).astype(np.float32)
    found = AUTO.threshold(seen(masked), INT8)
    assert found.reason.startswith("a mask: 0.49 of the values lie far away, up to 10014.2")
    scale = np.float32(found.amax / 127).reshape(())
    before, after = _softmax(masked), _softmax(fake_quantize(masked, scale, INT8.format, PerTensor()))
    assert np.abs(after - before).max() < 0.06
    assert after[:, ~np.tri(64, dtype=bool)].max() < 1e-3
    lost = np.float32(1e4 / 127).reshape(())
    assert np.abs(_softmax(fake_quantize(masked, lost, INT8.format, PerTensor())) - before).max() > 0.9


def test_large_values_that_are_not_strays_are_kept():
    values = SCORES.copy()
    values[0] = 2e3  # 1.6 % of the values
    assert AUTO.threshold(seen(values), INT8).amax > 1e3


def test_dust_is_no_bulk():
    values = np.zeros(100_000, np.float32)
    values[::10] = 1
    values[1::10] = np.random.default_rng(23).uniform(0, 1e-5, 10_000)
    assert AUTO.threshold(seen(values), INT8).amax == pytest.approx(1, rel=2e-3)


@pytest.mark.parametrize("amax", [0.25, 0.5, 3.0, 64.0])
def test_the_clipped_fraction_is_that_of_the_values(amax):
    values = np.random.default_rng(23).standard_normal(100_000).astype(np.float32)
    assert clipped_fraction(histogram(values), amax) == pytest.approx(np.mean(np.abs(values) > amax), abs=1e-12)


def test_nothing_is_clipped_of_nothing():
    assert clipped_fraction(histogram(np.zeros(5, np.float32)), 1.0) == 0


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
