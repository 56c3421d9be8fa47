"""Entropy against the published procedure, written out bin by bin on the values themselves."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.magnitudes import counted, seen

from qdqtool.numerics import formats
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.calibrators.entropy import divergence, even_bins

ENTROPY = calibrators.get("entropy")
GOAL = calibrators.RangeGoal(format=formats.get("int8"))


def published_threshold(values: np.ndarray, bins: int, width: float, levels: int = 128) -> float:
    """``S. Migacz, 8-bit Inference with TensorRT, GTC 2017``: the pseudocode, with the outlier bin never smoothed."""
    magnitudes = np.abs(values[values != 0].astype(np.float64))
    histogram, _ = np.histogram(magnitudes, bins, (0, bins * width))
    divergences = [plain_divergence(histogram.astype(float), kept, levels) for kept in range(levels, bins + 1)]
    kept = max(i for i, each in enumerate(divergences, levels) if each == min(divergences))
    return magnitudes.max() if kept == bins else min((kept + 0.5) * width, magnitudes.max())


def plain_divergence(histogram: np.ndarray, kept: int, levels: int) -> float:
    reference = histogram[:kept].copy()
    reference[-1] += histogram[kept:].sum()
    level, filled = np.arange(kept) * levels // kept, histogram[:kept] > 0
    sums, counts = (np.bincount(level, of, levels) for of in (histogram[:kept], filled))
    candidate = np.where(filled, (sums / np.maximum(counts, 1))[level], 0)
    if not candidate.sum():
        return np.inf
    p, q = reference / reference.sum(), candidate / candidate.sum()
    if (q[p > 0] == 0).any():
        return np.inf
    return float((p[p > 0] * np.log(p[p > 0] / q[p > 0])).sum())


def _published_bins(values: np.ndarray) -> tuple[int, float]:
    """The fewest whole bins of the histogram's width that make at most 2,048 up to the largest magnitude."""
    amax = float(np.abs(values).max())
    fine = 2.0 ** np.ceil(np.log2(amax) + 1e-12) / 2**14
    group = next(n for n in range(1, 20) if int(amax / fine) // n < 2048)
    return int(amax / fine) // group + 1, group * fine


def test_the_threshold_is_that_of_the_published_procedure_on_the_values(values):
    bins, width = _published_bins(values)
    assert 1639 <= bins <= 2048
    assert ENTROPY.threshold(seen(values), GOAL).amax == pytest.approx(
        published_threshold(values, bins, width), rel=1e-9
    )


@pytest.mark.parametrize("levels", [8, 128])
def test_the_divergence_of_every_candidate_is_that_of_the_published_procedure(levels):
    histogram = np.random.default_rng(3).poisson(np.geomspace(300, 0.2, 400)).astype(float)
    histogram[-1] = 1
    expected = [plain_divergence(histogram, kept, levels) for kept in range(levels, 401)]
    np.testing.assert_allclose(divergence(histogram, levels), expected, rtol=1e-9, atol=1e-12)


def test_int4_has_eight_levels(values):
    bins, width = _published_bins(values)
    found = ENTROPY.threshold(seen(values), replace(GOAL, format=formats.get("int4"))).amax
    assert found == pytest.approx(published_threshold(values, bins, width, levels=8), rel=1e-9)


@pytest.mark.parametrize("name", ["float8e4m3fn", "int16"])
def test_formats_that_the_procedure_says_nothing_about_are_not_clipped(name, values):
    threshold = ENTROPY.threshold(seen(values), replace(GOAL, format=formats.get(name)))
    assert threshold.amax == np.abs(values).max()
    assert "nothing is clipped" in threshold.reason


@pytest.mark.parametrize("method", ["entropy", "percentile"])
def test_of_peaked_tensors_the_few_large_values_are_kept(method, values):
    """A Softmax gives many small values and the few that count: how few they are must not decide."""
    peaked = replace(GOAL, peaked=True)
    found = calibrators.get(method).threshold(seen(values), peaked)
    assert found == calibrators.get("mse").threshold(seen(values), GOAL)


@given(st.lists(st.integers(0, 6), min_size=4, max_size=40), st.integers(1, 9), st.sampled_from([2, 4]))
def test_the_divergence_of_thin_histograms_is_the_published_one(counts, last, levels):
    """With empty bins and levels everywhere, also before the first value."""
    histogram = np.array([*counts, last], float)
    expected = [plain_divergence(histogram, kept, levels) for kept in range(levels, len(histogram) + 1)]
    np.testing.assert_allclose(divergence(histogram, levels), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("exponent", [-3, 0, 5])
@pytest.mark.parametrize(
    ("last", "group"), [(0, 1), (2_046, 1), (2_047, 1), (2_048, 2), (8_191, 4), (8_192, 5), (8_195, 5), (16_383, 8)]
)
def test_bins_are_merged_to_2048_at_most(last, group, exponent):
    counts = {number: number % 7 + 1 for number in range(0, last, 3)} | {last: 5}
    bins, width = even_bins(counted(counts, exponent))
    assert width == group * 2.0**exponent
    assert len(bins) == last // group + 1 <= 2_048
    assert bins.tolist() == [
        sum(counts.get(each, 0) for each in range(start, start + group)) for start in range(0, last + 1, group)
    ]


def test_the_method_and_the_number_of_levels_are_named(values):
    found = ENTROPY.threshold(seen(values / np.abs(values).max()), GOAL)
    assert (found.method, found.reason, found.apart) == ("entropy", "least divergence with 128 levels", None)
    fp8 = ENTROPY.threshold(seen(values), replace(GOAL, format=formats.get("float8e4m3fn")))
    assert fp8.reason == "nothing is clipped: entropy needs evenly spaced levels, not float8e4m3fn"
    assert ENTROPY.threshold(seen(values), replace(GOAL, format=formats.get("int16"))).reason == "nothing is clipped"
