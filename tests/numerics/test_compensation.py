"""Weights that make up for changed inputs: against least squares, and only where other samples gain by it."""

import numpy as np
import pytest

from qdqtool.numerics.compensation import NARROW, Compensation, InputChange, PairedMoments, useful_share, useful_shares
from qdqtool.numerics.gptq import DAMPING, Factor

CHANNELS, OUTPUTS, ROWS = 12, 5, 400


def rows(seed, noise=0.0, follows=0.0):
    """Float rows, and rows with noise of their own or an error that follows the values."""
    rng = np.random.default_rng(seed)
    exact = rng.normal(size=(ROWS, CHANNELS)) @ np.triu(np.ones((CHANNELS, CHANNELS)))
    mixed = np.roll(exact, 1, axis=1)
    return exact, exact + noise * rng.normal(size=exact.shape) + follows * mixed


def moments(exact, rounded):
    return PairedMoments(rounded.T @ rounded, InputChange((lambda: (rounded, exact - rounded),)))


def weights():
    return np.random.default_rng(7).normal(size=(CHANNELS, OUTPUTS)).astype(np.float32)


def compensated(given, *folds):
    """The weight after both steps; the folds can be used again."""
    (share,) = useful_shares([lambda: given], folds)
    return compensation(folds).compensated(given, share)


def compensation(folds):
    return Compensation.of([PairedMoments(fold.inputs.copy(), fold.change) for fold in folds])


def unread():
    raise AssertionError("read for nothing")


def test_the_result_is_the_least_squares_solution_on_all_samples_with_the_damping_as_rows_of_their_own():
    (first, first_rounded), (second, second_rounded) = rows(1, follows=0.1), rows(2, follows=0.1)
    parts = moments(first, first_rounded), moments(second, second_rounded)
    found = compensated(weights(), *parts)
    exact, rounded = np.concatenate([first, second]), np.concatenate([first_rounded, second_rounded])
    damping = np.sqrt(DAMPING * np.mean(np.diag(rounded.T @ rounded))) * np.eye(CHANNELS)
    wanted = np.concatenate([exact @ weights(), damping @ weights()])
    best, *_ = np.linalg.lstsq(np.concatenate([rounded, damping]), wanted)
    of_inputs = first_rounded.T @ first_rounded
    half = DAMPING * np.mean(np.diag(of_inputs)) * np.eye(CHANNELS)
    change = first_rounded.T @ (first - first_rounded)
    of_first = np.linalg.solve(of_inputs + half, change @ weights())
    share = useful_share(weights().astype(np.float64), of_first, parts[1])
    assert 0.5 < share <= 1
    expected = weights() + share * (best - weights())
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_products_of_other_rows_get_nearer_to_the_float_ones():
    parts = [moments(*rows(seed, follows=0.1)) for seed in (1, 2)]
    found = compensated(weights(), *parts)
    exact, rounded = rows(3, follows=0.1)
    errors = [np.square(rounded @ w - exact @ weights()).sum() for w in (weights(), found)]
    assert errors[1] < 0.3 * errors[0]


def test_a_correction_that_does_not_help_the_other_samples_is_not_made():
    helpful, contrary = moments(*rows(1, follows=0.1)), moments(*rows(2, follows=-0.1))
    given = weights()
    assert compensated(given, helpful, contrary) is given


@pytest.mark.parametrize("folds", [1, 2])
def test_nothing_changes_with_one_sample_or_where_the_inputs_are_those_of_the_float_model(folds):
    exact, rounded = rows(1, follows=0.1)
    change = InputChange((lambda: (rounded, exact - rounded),)) if folds == 1 else None
    given = weights()
    parts = [PairedMoments(rounded.T @ rounded, change)] * folds
    assert compensated(given, *parts) is given


@pytest.mark.parametrize("follows", [0.1, 0.002, -0.1])
def test_the_useful_share_is_the_best_of_many(follows):
    given = weights().astype(np.float64)
    correction = 0.05 * np.roll(given, 1, axis=0)
    exact, rounded = rows(4, noise=0.3, follows=follows)
    shares = np.linspace(0, 1, 1001)
    errors = [np.square(rounded @ (given + t * correction) - exact @ given).sum() for t in shares]
    found = useful_share(given, correction, moments(exact, rounded))
    assert found == pytest.approx(shares[int(np.argmin(errors))], abs=0.001)


def test_inputs_that_are_all_zero_change_nothing():
    zero = np.zeros((CHANNELS, CHANNELS))
    given = weights()
    parts = [PairedMoments(zero, InputChange((lambda: (zero, zero),))) for _ in range(2)]
    np.testing.assert_array_equal(compensated(given, *parts), given)


def test_matrices_that_read_the_same_inputs_are_corrected_as_each_alone():
    parts = [moments(*rows(seed, follows=0.1)) for seed in (1, 2)]
    matrices = [weights(), 3 * weights()[:, :2]]
    reads = [lambda each=each: each for each in matrices]
    shares, of_all = useful_shares(reads, parts), compensation(parts)
    for given, share in zip(matrices, shares, strict=True):
        np.testing.assert_array_equal(of_all.compensated(given, share), compensated(given, *parts))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_all_samples_count_alike_and_their_parts_are_used_up(count):
    given = [rows(seed) for seed in range(count)]
    parts = [moments(*each) for each in given]
    found = Compensation.of(parts)
    assert parts == []
    exact, rounded = (np.concatenate(each) for each in zip(*given, strict=True))
    np.testing.assert_allclose(found.factor.upper, Factor.of(rounded.T @ rounded).upper, rtol=1e-9, atol=1e-12)
    eye = np.eye(CHANNELS)
    np.testing.assert_allclose(found.change @ eye, rounded.T @ (exact - rounded), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("first", [0, 1])
def test_a_part_of_unknown_change_makes_the_change_of_all_unknown(first):
    known = moments(*rows(1, follows=0.1))
    parts = [known, PairedMoments(known.inputs)]
    parts = [parts[first], parts[1 - first]]
    assert useful_shares([unread, unread], parts) == [0.0, 0.0]
    assert compensation(parts).change is None


@pytest.mark.parametrize("outputs", [1, CHANNELS // NARROW, CHANNELS // NARROW + 1, 40])
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_change_is_multiplied_as_its_matrix_whatever_the_width_of_the_weight(outputs, pieces):
    exact, rounded = rows(5, noise=0.2)
    made = zip(np.array_split(rounded, pieces), np.array_split(exact - rounded, pieces), strict=True)
    change = InputChange(tuple(lambda piece=piece: piece for piece in made))
    wide = np.random.default_rng(8).normal(size=(CHANNELS, outputs))
    expected = rounded.T @ (exact - rounded) @ wide
    np.testing.assert_allclose(change @ wide, expected, rtol=1e-10, atol=1e-9)


def test_rows_that_are_not_finite_are_told():
    exact, rounded = rows(6)
    assert InputChange((lambda: (rounded, exact - rounded),)).is_finite
    exact[0, 0] = np.inf
    assert not InputChange((lambda: (rounded, exact - rounded),)).is_finite
