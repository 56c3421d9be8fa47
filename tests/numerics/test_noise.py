"""Noise of outputs, and the gain of one setting over another, against figures worked out by hand."""

import math
from collections.abc import Sequence
from fractions import Fraction
from math import log10

import ml_dtypes
import numpy as np
import pytest

from qdqtool.numerics.noise import WORST_DB, Noise, noise_of, standard_error

EPS2 = 2.0**-46
"""The square of the largest relative distance between neighbours in float32."""
INF = float("inf")
BEST = WORST_DB


def noise(signal: object, values: object) -> Noise:
    return Noise(np.array(signal, np.float64), np.array(values, np.float64))


def powers(expected: list[np.ndarray], found: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Signal and noise of the outputs of one sample."""
    made = noise_of(*(dict(zip("abcd", each, strict=False)) for each in (expected, found)))
    assert made.samples == 1
    return made.signal[0], made.noise[0]


def db(ratio: Fraction | float) -> float:
    return 10 * log10(ratio)


def test_signal_and_noise_are_sums_of_squares():
    rng = np.random.default_rng(0)
    pairs = [tuple(rng.normal(size=(2, *shape)).astype(np.float32)) for shape in ((3, 4), (2,), (), (0, 5))]
    signal, found = powers([a for a, _ in pairs], [x for _, x in pairs])
    for each, (a, x) in enumerate(pairs):
        # Fractions: no sum and no difference is rounded.
        left, right = ([Fraction(float(v)) for v in array.reshape(-1)] for array in (a, x))
        assert signal[each] == pytest.approx(float(sum(v * v for v in left)), rel=1e-14)
        assert found[each] == pytest.approx(
            float(sum((v - w) ** 2 for v, w in zip(left, right, strict=True))), rel=1e-14
        )
    assert signal.dtype == found.dtype == np.float64
    assert (signal[3], found[3]) == (0, 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_sums_of_other_types_are_in_float64(dtype):
    a, x = np.full(300, 16, dtype), np.full(300, -16, dtype)
    assert [each.tolist() for each in powers([a], [x])] == [[300 * 256.0], [300 * 1024.0]]


@pytest.mark.parametrize(
    ("a", "x", "signal", "expected"),
    [
        ([3, 4], [3, 2], 25, 4),
        ([3, np.nan], [2, 7], 9, 1),
        ([3, np.nan], [2, np.nan], 9, 1),
        ([np.inf, 4], [np.inf, 1], 16, 9),
        ([np.inf, 4], [-np.inf, 4], 16, 0),
        ([3, 4], [3, np.nan], 25, INF),
        ([3, 4], [-np.inf, 4], 25, INF),
        ([np.nan, 4], [np.nan, np.inf], 16, INF),
        ([np.nan, np.inf], [1, 2], 0, 0),
    ],
)
def test_values_that_are_not_finite(a, x, signal, expected):
    found = powers([np.array(a, np.float32)], [np.array(x, np.float32)])
    assert [each.tolist() for each in found] == [[signal], [expected]]


@pytest.mark.parametrize("shape", [(2, 4), (4, 3)])
def test_an_output_of_another_shape_counts_for_nothing(shape):
    signal, found = powers([np.ones((3, 4)), np.ones(2)], [np.zeros(shape), np.zeros(2)])
    assert (signal.tolist(), found.tolist()) == ([0, 2], [0, 2])


def test_joined_noise_has_the_samples_of_all_parts_in_order():
    one, two = noise([[1, 2]], [[3, 4]]), noise([[5, 6], [7, 8]], [[9, 10], [11, 12]])
    whole = Noise.joined(iter([one, two]))
    assert whole.signal.tolist() == [[1, 2], [5, 6], [7, 8]]
    assert whole.noise.tolist() == [[3, 4], [9, 10], [11, 12]]
    assert whole.samples == 3


@pytest.mark.parametrize(
    ("signal", "values", "expected"),
    [
        ([[300], [100]], [[3], [1]], db(100)),
        ([[300], [100]], [[0], [0]], INF),
        ([[0], [0]], [[0], [0]], INF),
        ([[0], [0]], [[0], [1]], -INF),
        ([[300], [100]], [[INF], [1]], -INF),
    ],
)
def test_the_sqnr_is_over_all_samples(signal, values, expected):
    assert noise(signal, values).sqnr_db().tolist() == [pytest.approx(expected, rel=1e-15)]


@pytest.mark.parametrize(
    ("signal", "before", "after", "expected"),
    [
        # One output, one sample: both figures are the same.
        ([[1000]], [[20]], [[2]], 10),
        ([[1000]], [[2]], [[20]], -10),
        ([[1000]], [[7]], [[7]], 0),
        # Over all samples 110/11 = 10 dB; of the samples 10 and 10 dB.
        ([[1000], [10]], [[100], [10]], [[10], [1]], 10),
        # Over all samples (100 + 1)/(1 + 100): 0 dB; of the samples 20 and -20 dB.
        ([[1000], [10]], [[100], [1]], [[1], [100]], 0),
        # A loud sample keeps its noise, a quiet one loses 30 dB of it: db(2000/1001) over all, 15 dB for a sample.
        ([[1e6], [1e4]], [[1000], [1000]], [[1000], [1]], (db(Fraction(2000, 1001)) + 15) / 2),
        # Two outputs count alike, however large one is: 10 dB and -20 dB.
        ([[1e12, 1e-6]], [[1e9, 1e-9]], [[1e8, 1e-7]], -5),
        # Two samples of two outputs.
        (
            [[100, 100], [100, 100]],
            [[4, 6], [8, 2]],
            [[2, 6], [1, 4]],
            ((db(4) + db(Fraction(8, 10))) / 2 + (db(2) + db(8) + 0 + db(Fraction(1, 2))) / 4) / 2,
        ),
        # An output that is zero on all samples is left out, whatever its noise.
        ([[1000, 0]], [[20, 1]], [[2, 100]], 10),
        ([[0]], [[1]], [[100]], 0),
        # No noise on one side: down to one rounding of the output.
        ([[1]], [[1]], [[0]], db(1 / EPS2)),
        ([[1]], [[0]], [[1]], -db(1 / EPS2)),
        ([[2]], [[1]], [[EPS2]], db(1 / (2 * EPS2))),
        # No noise, or less than a rounding, on both sides.
        ([[1]], [[0]], [[0]], 0),
        ([[1]], [[EPS2 / 2]], [[EPS2 / 8]], 0),
        # Infinite noise on one side, on both, and on one sample of one output.
        ([[1]], [[INF]], [[1]], BEST),
        ([[1]], [[1]], [[INF]], -BEST),
        ([[1]], [[INF]], [[INF]], 0),
        ([[1, 1]], [[2, INF]], [[1, INF]], db(2) / 2),
        ([[1], [1]], [[1], [1]], [[INF], [1]], (-BEST + -BEST / 2) / 2),
        # A sample on which the float output is zero: down to one rounding of the mean sample, here of 1.
        ([[2], [0]], [[1], [EPS2]], [[1], [0]], db(1 + EPS2) / 2),
        ([[2], [0]], [[1], [4 * EPS2]], [[1], [0]], db(4) / 4),
        # Nothing counts for more than values that became infinite.
        ([[1e-300]], [[1e100]], [[1e-300]], BEST),
    ],
)
def test_the_gain_is_the_mean_over_outputs_of_two_figures(signal, before, after, expected):
    one, two = noise(signal, before), noise(signal, after)
    assert one.gain_db(two) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert two.gain_db(one) == -one.gain_db(two)


def test_the_gain_of_random_noise_is_antisymmetric_and_zero_over_itself():
    rng = np.random.default_rng(1)
    for _ in range(50):
        signal = np.exp(rng.normal(scale=9, size=(4, 3))) * rng.integers(0, 2, (4, 3))
        one, two = (
            Noise(signal, np.exp(rng.normal(scale=9, size=(4, 3))) * rng.choice([0, 1, 1, np.inf], 3)) for _ in range(2)
        )
        assert one.gain_db(two) == -two.gain_db(one)
        assert one.gain_db(one) == 0


def test_the_error_of_a_gain_is_that_of_pseudo_values():
    rng = np.random.default_rng(2)
    signal, before, after = (np.exp(rng.normal(size=(9, 2))) for _ in range(3))
    one, two = Noise(signal, before), Noise(signal, after)
    kept = [[other for other in range(9) if other != left] for left in range(9)]
    without = [Noise(signal[k], before[k]).gain_db(Noise(signal[k], after[k])) for k in kept]
    pseudo = 9 * one.gain_db(two) - 8 * np.array(without)
    assert one.gain_error_db(two) == pytest.approx(pseudo.std(ddof=1) / 3, rel=1e-12)


def test_a_gain_that_all_samples_have_has_no_error_and_one_of_a_single_sample_has_any():
    same = Noise(np.ones((5, 1)), np.full((5, 1), 2.0))
    assert same.gain_error_db(Noise(same.signal, same.noise / 4)) == pytest.approx(0, abs=1e-12)
    assert noise([[1]], [[2]]).gain_error_db(noise([[1]], [[1]])) == INF


def test_the_error_is_larger_than_a_gain_that_one_sample_makes():
    before, after = np.ones((20, 1)), np.full((20, 1), 1.1)
    before[7], after[7] = 1000, 1
    one, two = Noise(np.ones((20, 1)), before), Noise(np.ones((20, 1)), after)
    assert one.gain_error_db(two) > one.gain_db(two) > 5


# The standard error of an SQNR, against its definition and against many draws.


def error_db(parts: Sequence[tuple[float, float]]) -> float | None:
    """The standard error for signal and noise of each sample; None where it is unknown."""
    signal, noise = np.array(parts, np.float64).reshape(-1, 2).T
    (found,) = Noise(signal[:, None], noise[:, None]).sqnr_error_db()
    return None if math.isnan(found) else float(found)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([(100.0, 1.0)] * 5, 0),
        # Leaving one of two out leaves the other: 20 dB and 10 dB, so sqrt(1/2 * 2 * 5**2) = 5 dB.
        ([(100.0, 1.0), (100.0, 10.0)], 5),
        # Too few samples, samples without noise, one sample with all the signal.
        ([], None),
        ([(1.0, 0.1)], None),
        ([(1.0, 0.0), (1.0, 0.0)], None),
        ([(1.0, 0.5), (1.0, 0.0)], None),
        ([(100.0, 1.0), (0.0, 1.0), (0.0, 1.0)], None),
    ],
)
def test_the_standard_error_of_few_samples(parts: list[tuple[float, float]], expected: float | None) -> None:
    assert error_db(parts) == (None if expected is None else pytest.approx(expected))


def test_of_a_mean_it_is_the_standard_deviation_over_the_root_of_the_number() -> None:
    values = np.random.default_rng(3).normal(size=11)
    left_out = [np.delete(values, at).mean() for at in range(11)]
    assert standard_error(np.array(left_out)) == pytest.approx(values.std(ddof=1) / math.sqrt(11), rel=1e-12)


def test_it_tells_how_far_draws_differ() -> None:
    """The mean standard error of many draws is the deviation of their SQNR, within a tenth."""
    random = np.random.default_rng(5)
    draws = [list(zip(random.uniform(90, 110, 24), random.gamma(4, size=24), strict=True)) for _ in range(400)]
    measured = [10 * math.log10(sum(s for s, _ in draw) / sum(n for _, n in draw)) for draw in draws]
    errors = [error for draw in draws if (error := error_db(draw)) is not None]
    assert len(errors) == 400
    assert np.mean(errors) == pytest.approx(np.std(measured), rel=0.1)


def test_each_output_has_its_own() -> None:
    random = np.random.default_rng(6)
    signal, noise = random.uniform(1, 2, (7, 3)), random.uniform(1, 2, (7, 3))
    each = [error_db(list(zip(signal[:, at], noise[:, at], strict=True))) for at in range(3)]
    assert Noise(signal, noise).sqnr_error_db() == pytest.approx(each, rel=1e-12)
