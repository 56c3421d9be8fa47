"""The standard error of an SQNR, against its definition and against many draws."""

import math

import numpy as np
import pytest

from qdqtool.accuracy.checking.sample_errors import SampleSums, jackknife_db
from qdqtool.models.running.accumulated_error import AccumulatedError


def test_samples_that_are_alike_leave_no_doubt() -> None:
    assert jackknife_db([(100.0, 1.0)] * 5) == 0


@pytest.mark.parametrize("parts", [[], [(1.0, 0.1)], [(1.0, 0.0), (1.0, 0.0)], [(1.0, 0.5), (1.0, 0.0)]])
def test_too_little_tells_nothing(parts: list[tuple[float, float]]) -> None:
    assert jackknife_db(parts) is None


def test_of_two_samples_it_is_half_of_their_difference() -> None:
    # Leaving one out leaves the other: 20 dB and 10 dB, so sqrt(1/2 * 2 * 5**2) = 5 dB.
    assert jackknife_db([(100.0, 1.0), (100.0, 10.0)]) == pytest.approx(5)


def test_it_tells_how_far_draws_differ() -> None:
    """The mean standard error of many draws is the deviation of their SQNR, within a tenth."""
    random = np.random.default_rng(5)
    draws = [list(zip(random.uniform(90, 110, 24), random.gamma(4, size=24), strict=True)) for _ in range(400)]
    measured = [10 * math.log10(sum(s for s, _ in draw) / sum(n for _, n in draw)) for draw in draws]
    errors = [error for draw in draws if (error := jackknife_db(draw)) is not None]
    assert len(errors) == 400
    assert np.mean(errors) == pytest.approx(np.std(measured), rel=0.1)


def test_sums_are_taken_sample_by_sample() -> None:
    error = AccumulatedError()
    sums = SampleSums(error)
    for noise in (0.1, 0.2, 0.4):
        error.add(np.ones(4, np.float32), np.full(4, 1 + noise, np.float32))
        sums.note()
    parts = [(4.0, 4 * float(np.float32(1 + noise) - 1) ** 2) for noise in (0.1, 0.2, 0.4)]
    found = sums.standard_error_db()
    assert found is not None
    assert found == pytest.approx(jackknife_db(parts), rel=1e-9)
