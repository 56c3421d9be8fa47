"""The metrics against their formulas worked out by hand, and at the edges of their definitions."""

import math

import ml_dtypes
import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.numerics import metrics

ZERO = np.zeros(3, np.float32)
EMPTY = np.zeros((0, 2), np.float32)
A = np.array([3.0, 4.0], np.float32)
B = np.array([3.0, 4.5], np.float32)


def test_sqnr_is_ten_log_of_the_energy_ratio():
    assert metrics.sqnr_db(A, B) == pytest.approx(10 * math.log10(25 / 0.25), rel=1e-15)


def test_one_bit_more_is_six_decibels():
    x = np.random.default_rng(1).uniform(-1, 1, 100_000)
    coarse, fine = np.round(x * 64) / 64, np.round(x * 128) / 128
    assert metrics.sqnr_db(x, fine) - metrics.sqnr_db(x, coarse) == pytest.approx(6.02, abs=0.05)


@pytest.mark.parametrize(("reference", "x"), [(A, A), (ZERO, ZERO), (ZERO, ZERO + 1), (EMPTY, EMPTY)])
def test_sqnr_is_none_where_it_is_no_number(reference, x):
    assert metrics.sqnr_db(reference, x) is None


def test_sqnr_of_float16_does_not_overflow():
    big = np.full(1000, 60000, np.float16)
    assert metrics.sqnr_db(big, big - np.float16(32)) == pytest.approx(20 * math.log10(60000 / 32))


def test_metrics_take_ml_dtypes():
    x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert metrics.max_abs(x, x + x) == 2


def test_cosine():
    assert metrics.cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(math.sqrt(0.5))
    assert metrics.cosine(A, A) == 1
    assert metrics.cosine(A, -A) == -1
    assert metrics.cosine(ZERO, ZERO + 1) is None
    assert metrics.cosine(ZERO + 1, ZERO) is None
    assert metrics.cosine(EMPTY, EMPTY) is None


def test_cosines_of_parallel_tensors_do_not_leave_the_range_by_rounding():
    for seed in range(200):
        x = np.random.default_rng(seed).normal(size=3)
        assert metrics.cosine(x, x * 3) == pytest.approx(1)
        assert metrics.cosine(x, x * 3) <= 1
        assert metrics.cosine(x, x * -3) >= -1


def test_max_abs():
    assert metrics.max_abs(A, B) == 0.5
    assert metrics.max_abs(EMPTY, EMPTY) == 0


@pytest.mark.parametrize("at", [0, 1_500_000, 2_999_999])
def test_every_part_of_large_tensors_counts(at):
    x = np.zeros(3_000_000, np.float16)
    y = x.copy()
    y[at] = 0.5
    assert metrics.max_abs(x, y) == 0.5
    assert not metrics.exact(x, y)
    assert metrics.exact(y, y)
    y[at] = np.nan
    assert metrics.nonfinite_mismatches(x, y) == 1


def test_steps_are_signed_multiples_of_the_scale():
    scale = np.array([[0.5], [2.0]])
    a, b = np.array([[1.0, 1.0], [0.0, 4.0]]), np.array([[1.0, 2.0], [-2.0, 4.0]])
    np.testing.assert_array_equal(metrics.steps(a, b, scale), [[0, 2], [-1, 0]])
    assert metrics.max_steps(a, b, scale) == 2
    assert metrics.max_steps(EMPTY, EMPTY, np.float32(1)) == 0


def test_equal_infinities_and_nans_differ_by_no_step():
    x = np.array([np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(metrics.steps(x, x, np.float64(1)), [0, 0, 0])


def test_nan_against_a_number_is_no_number_of_steps():
    one, two = np.array([np.nan, 1.0, np.inf]), np.array([1.0, np.nan, 1.0])
    np.testing.assert_array_equal(metrics.steps(one, two, np.float64(1)), [np.nan, np.nan, -np.inf])


def test_nonfinite_mismatches_are_counted_and_left_out_of_the_rest():
    a = np.array([1.0, np.inf, np.nan, np.nan, np.inf, 2.0])
    b = np.array([1.0, np.inf, np.nan, 0.0, -np.inf, 2.5])
    assert metrics.nonfinite_mismatches(a, b) == 2
    assert metrics.nonfinite_mismatches(a, a) == 0
    assert metrics.max_abs(a, b) == 0.5


def test_exact_means_equal_values():
    assert metrics.exact(np.array([0.0, np.nan]), np.array([-0.0, np.nan]))
    assert not metrics.exact(A, B)


def one_step(reference, x):
    return metrics.steps(reference, x, np.float32(1))


@pytest.mark.parametrize(
    "metric",
    [
        metrics.sqnr_db,
        metrics.cosine,
        metrics.max_abs,
        metrics.exact,
        metrics.nonfinite_mismatches,
        one_step,
    ],
)
def test_shapes_must_be_equal(metric):
    with pytest.raises(ArgumentError, match=r"shapes are \[2\] and \[3\]; they must be equal"):
        metric(A, ZERO)
    with pytest.raises(ArgumentError, match=r"shapes are \[1\] and \[3\]; they must be equal"):
        metric(A[:1], ZERO)  # although they broadcast
