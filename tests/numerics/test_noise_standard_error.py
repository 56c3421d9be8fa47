"""The standard error of an SQNR, against its definition and against many draws."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from qdqtool.numerics.noise import Noise, standard_error


def error_db(parts: Sequence[tuple[float, float]]) -> float | None:
    """The standard error for signal and noise of each sample; None where it is unknown."""
    signal, noise = np.array(parts, np.float64).reshape(-1, 2).T
    (found,) = Noise(signal[:, None], noise[:, None]).sqnr_error_db()
    return None if math.isnan(found) else float(found)


def test_samples_that_are_alike_leave_no_doubt() -> None:
    assert error_db([(100.0, 1.0)] * 5) == 0


@pytest.mark.parametrize("parts", [[], [(1.0, 0.1)], [(1.0, 0.0), (1.0, 0.0)], [(1.0, 0.5), (1.0, 0.0)]])
def test_too_little_tells_nothing(parts: list[tuple[float, float]]) -> None:
    assert error_db(parts) is None


def test_one_sample_with_all_the_signal_tells_nothing() -> None:
    assert error_db([(100.0, 1.0), (0.0, 1.0), (0.0, 1.0)]) is None


def test_of_two_samples_it_is_half_of_their_difference() -> None:
    # Leaving one out leaves the other: 20 dB and 10 dB, so sqrt(1/2 * 2 * 5**2) = 5 dB.
    assert error_db([(100.0, 1.0), (100.0, 10.0)]) == pytest.approx(5)


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
