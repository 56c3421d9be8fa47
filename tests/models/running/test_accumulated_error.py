"""Errors of single samples, joined, are those of all samples in one."""

import math

import ml_dtypes
import numpy as np
import pytest

from qdqtool.errors import ArgumentError
from qdqtool.models.running.accumulated_error import AccumulatedError, max_steps


def test_errors_of_samples_are_joined_as_if_they_were_added_to_one():
    rng = np.random.default_rng(0)
    pairs = [(rng.integers(-9, 9, 16).astype(np.float32), rng.integers(-9, 9, 16).astype(np.float32)) for _ in range(4)]
    pairs[1][0][:3] = np.nan, np.inf, 2
    pairs[1][1][:3] = np.nan, 1, np.nan
    pairs[2] = (pairs[2][0], pairs[2][1][:5])
    whole = AccumulatedError()
    for reference, x in pairs:
        whole.add(reference, x)
    found = [AccumulatedError.of(reference, x) for reference, x in pairs]
    assert [each.elements for each in found] == [16, 16, 0, 16]
    assert AccumulatedError.joined(found) == whole
    assert (whole.other_shapes, whole.nonfinite, whole.nonfinite_mismatches) == (1, 2, 2)
    assert AccumulatedError.joined([]) == AccumulatedError()


# Each metric against its formula worked out by hand, and at the edges of its definition.


of = AccumulatedError.of
ZERO = np.zeros(3, np.float32)
EMPTY = np.zeros((0, 2), np.float32)
A = np.array([3.0, 4.0], np.float32)
B = np.array([3.0, 4.5], np.float32)


def test_sqnr_is_ten_log_of_the_energy_ratio():
    assert of(A, B).sqnr_db == pytest.approx(10 * math.log10(25 / 0.25), rel=1e-15)


def test_one_bit_more_is_six_decibels():
    x = np.random.default_rng(1).uniform(-1, 1, 100_000)
    coarse, fine = np.round(x * 64) / 64, np.round(x * 128) / 128
    assert of(x, fine).sqnr_db - of(x, coarse).sqnr_db == pytest.approx(6.02, abs=0.05)


@pytest.mark.parametrize(("reference", "x"), [(A, A), (ZERO, ZERO), (ZERO, ZERO + 1), (EMPTY, EMPTY)])
def test_sqnr_is_none_where_it_is_no_number(reference, x):
    assert of(reference, x).sqnr_db is None


def test_sqnr_of_float16_does_not_overflow():
    big = np.full(1000, 60000, np.float16)
    assert of(big, big - np.float16(32)).sqnr_db == pytest.approx(20 * math.log10(60000 / 32))


def test_metrics_take_ml_dtypes():
    x = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert of(x, x + x).max_abs == 2


def test_cosine():
    assert of(np.array([1.0, 0.0]), np.array([1.0, 1.0])).cosine == pytest.approx(math.sqrt(0.5))
    assert of(A, A).cosine == 1
    assert of(A, -A).cosine == -1
    assert of(ZERO, ZERO + 1).cosine is None
    assert of(ZERO + 1, ZERO).cosine is None
    assert of(EMPTY, EMPTY).cosine is None


def test_cosines_of_parallel_tensors_do_not_leave_the_range_by_rounding():
    for seed in range(200):
        x = np.random.default_rng(seed).normal(size=3)
        assert of(x, x * 3).cosine == pytest.approx(1)
        assert of(x, x * 3).cosine <= 1
        assert of(x, x * -3).cosine >= -1


def test_max_abs():
    assert of(A, B).max_abs == 0.5
    assert of(EMPTY, EMPTY).max_abs == 0


@pytest.mark.parametrize("at", [0, 1_500_000, 2_999_999])
def test_every_part_of_large_tensors_counts(at):
    x = np.zeros(3_000_000, np.float16)
    y = x.copy()
    y[at] = 0.5
    assert of(x, y).max_abs == 0.5
    assert not of(x, y).exact
    assert of(y, y).exact
    y[at] = np.nan
    assert of(x, y).nonfinite_mismatches == 1


def test_steps_are_multiples_of_the_scale():
    scale = np.array([[0.5], [2.0]])
    a, b = np.array([[1.0, 1.0], [0.0, 4.0]]), np.array([[1.0, 2.0], [-2.0, 4.0]])
    assert max_steps(a, b, scale) == 2
    assert max_steps(a, a + scale * 0.25, scale) == 0.25
    assert max_steps(EMPTY, EMPTY, np.float32(1)) == 0


@pytest.mark.parametrize("other", [[np.inf, -np.inf, np.nan, 1.0], [1.0, np.nan, 0.0, 1.0]])
def test_equal_infinities_and_values_that_are_not_finite_differ_by_no_step(other):
    assert max_steps(np.array([np.inf, -np.inf, np.nan, 1.0]), np.array(other), np.float64(1)) == 0


def test_nonfinite_mismatches_are_counted_and_left_out_of_the_rest():
    a = np.array([1.0, np.inf, np.nan, np.nan, np.inf, 2.0])
    b = np.array([1.0, np.inf, np.nan, 0.0, -np.inf, 2.5])
    assert of(a, b).nonfinite_mismatches == 2
    assert of(a, a).nonfinite_mismatches == 0
    assert of(a, b).max_abs == 0.5


def test_exact_means_equal_values():
    assert of(np.array([0.0, np.nan]), np.array([-0.0, np.nan])).exact
    assert not of(A, B).exact


def test_steps_need_equal_shapes():
    with pytest.raises(ArgumentError, match=r"shapes are \[2\] and \[3\]; they must be equal"):
        max_steps(A, ZERO, np.float32(1))
    with pytest.raises(ArgumentError, match=r"shapes are \[1\] and \[3\]; they must be equal"):
        max_steps(A[:1], ZERO, np.float32(1))  # although they broadcast
