"""The default: when it clips, when it does not, and what it does with values that lie far away from all others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import counted, seen
from support.metrics import sqnr_db

from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.granularity import PerTensor
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators import clipped_fraction
from qdqtool.quantization.ranges.types import TensorRange

AUTO = calibrators.get("auto")
INT8, FP8 = (calibrators.RangeGoal(format=formats.get(name)) for name in ("int8", "float8e4m3fn"))
SCORES = np.random.default_rng(23).standard_normal((64, 64, 64)).astype(np.float32) * 3


def sqnr(values: np.ndarray, threshold: calibrators.Threshold, goal: calibrators.RangeGoal = INT8) -> float:
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


@pytest.mark.parametrize("far", [2.5e3, 3e4])
def test_a_stray_value_does_not_cost_all_others(far):
    values = SCORES.copy()
    values[5, 6, 7] = far
    found = AUTO.threshold(seen(values), INT8)
    assert found.reason.startswith("outliers: 3.8e-06 of the values are far above")
    assert sqnr(np.delete(values, np.argmax(values)), found) > 35


def test_a_mask_stays_a_mask_and_the_scores_stay_scores():
    masked = SCORES + np.where(np.tri(64), 0, -1e4).astype(np.float32)
    found = AUTO.threshold(seen(masked), INT8)
    assert found.reason.startswith("a mask: 0.49 of the values are far above the rest, up to 10014.2")
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


def ranged(counts: dict[int, int], exponent: int = 0, zeros: int = 0, low: float | None = None) -> TensorRange:
    """A tensor whose largest magnitude ends its last bin, on the negative side only or on both."""
    amax = (max(counts) + 1) * 2.0**exponent
    high = amax if low is None else 9 * 2.0**exponent
    return TensorRange(-amax, high, amax, sum(counts.values()) + zeros, counted(counts, exponent, zeros))


@given(st.integers(0, 14_000).filter(lambda count: count), st.sampled_from([INT8, FP8]))
def test_it_clips_exactly_where_that_saves_more_than_two_percent(tail, goal):
    """Long tails of any weight, so that savings just above and just below are among them."""
    found = ranged({**dict.fromkeys(range(60), 10000), 90: tail // 10 + 1, 110: tail % 10 + 1}, -4)
    least = calibrators.get("mse").threshold(found, goal).amax
    edges = np.arange(0, 111.0001, 1 / 64) / 16
    middles, weights = (edges[:-1] + edges[1:]) / 2, np.repeat(found.histogram.counts[:111], 64)
    kept, clipped = (_spread_error(middles, weights, amax, goal) for amax in (found.amax, least))
    threshold = AUTO.threshold(found, goal)
    saved = 1 - clipped / kept
    if saved > 0.021:
        assert (threshold.method, threshold.amax, threshold.apart) == ("mse", least, None)
        assert threshold.reason.endswith(f"{clipped_fraction(found.histogram, least):.2g} of the values clipped")
    elif saved < 0.019:
        assert (threshold.method, threshold.amax, threshold.apart) == ("max", found.amax, None)
        assert threshold.reason == "clipping would hardly lower the error"


def _spread_error(values: np.ndarray, weights: np.ndarray, amax: float, goal: calibrators.RangeGoal) -> float:
    rounded = fake_quantize(
        values.astype(np.float32), np.float32(amax / goal.format.high).reshape(()), goal.format, PerTensor()
    )
    return float((weights * (rounded - values) ** 2).sum())


def test_a_mask_is_clipped_ten_below_the_bulk():
    found = AUTO.threshold(ranged({2: 5_000, 9: 4_000, 5_000: 600, 5_100: 400}, low=-5101.0), INT8)
    reason = "a mask: 0.1 of the values are far above the rest, up to 5101, and are clipped"
    assert found == calibrators.Threshold(20.0, "mse", f"{reason}; otherwise the other values would become 0", "mask")
    near = TensorRange(-1500.0, 9.0, 1500.0, 9_000, counted({2: 7_600, 9: 400, 1_499: 1_000}))
    assert AUTO.threshold(near, INT8).amax == 20


def test_strays_are_clipped_to_what_serves_the_bulk():
    bulk = {number: 100_000 // (number + 1) for number in range(1, 20)}
    found = AUTO.threshold(ranged({**bulk, 8_000: 3}, -3, zeros=50_000), INT8)
    expected = calibrators.get("mse").threshold(ranged(bulk, -3), INT8)
    share = 3 / (sum(bulk.values()) + 50_003)
    what = f"{share:.2g} of the values are far above the rest, up to 1000.12, and are clipped"
    reason = f"outliers: {what}; otherwise the other values would become 0"
    assert found == calibrators.Threshold(expected.amax, "mse", reason, "strays")


@pytest.mark.parametrize(
    ("name", "end", "is_lost"),
    [("int8", 8, True), ("int8", 12, False), ("float4e2m1", 80, True), ("float4e2m1", 130, False), ("int4", 130, True)],
)
def test_what_half_the_smallest_code_exceeds_is_lost(name, end, is_lost):
    """Half the smallest code is 2,540 / 254 = 10 in int8, 2,540 / 24 = 106 in float4e2m1, 2,540 / 14 = 181 in int4."""
    found = ranged({**dict.fromkeys(range(end - 3, end), 1_000), 2_539: 30_000}, low=-2_540.0)
    threshold = AUTO.threshold(found, calibrators.RangeGoal(format=formats.get(name)))
    assert threshold.apart == ("mask" if is_lost else None)


def _softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
