"""The errors of single samples: the worst ones, what counts as worse than what, and the distribution of the SQNR."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdqtool.accuracy.checking.sample_errors import FEWEST, MOST, OUTLIER_DB, SampleErrors, SampleOrigin, is_outlier
from qdqtool.models.running.accumulated_error import AccumulatedError
from qdqtool.numerics.dtypes import Array

SMALL = st.integers(-3, 3)
PAIRS = st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=4)


def errors_of(*pairs: tuple[Array, Array]) -> SampleErrors:
    errors = SampleErrors()
    for number, (reference, found) in enumerate(pairs):
        errors.add(AccumulatedError.of(np.float32(reference), np.float32(found)), SampleOrigin(number, (f"{number}",)))
    return errors


def decibels(reference: Array, found: Array) -> float:
    """10 log10(signal / noise); minus infinity without a signal, infinity without noise."""
    a, x = np.float64(reference), np.float64(found)
    signal, noise = float(np.sum(a**2)), float(np.sum((a - x) ** 2))
    if not noise:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


@given(st.lists(PAIRS, min_size=1, max_size=30))
def test_the_worst_samples_and_the_distribution_are_those_of_sorting_all(samples: list[list[tuple[int, int]]]) -> None:
    pairs = [tuple(np.array(sample).T) for sample in samples]
    errors = errors_of(*pairs)
    known = [decibels(*pair) for pair in pairs]
    offs = [float(np.max(np.abs(reference - found))) for reference, found in pairs]
    order = sorted(
        (number for number, db in enumerate(known) if db < math.inf),
        key=lambda number: (known[number], -offs[number] if known[number] == -math.inf else 0),
    )

    # Equal ratios of other sums may differ in the last bit, in either direction.
    assert [known[sample.number] for sample in errors.worst] == pytest.approx(
        [known[number] for number in order[:MOST]]
    )
    assert len({sample.number for sample in errors.worst}) == len(errors.worst)
    for sample in errors.worst:
        db = known[sample.number]
        assert sample.max_abs == offs[sample.number]
        assert sample.zero_reference is (db == -math.inf)
        assert sample.sqnr_db == (None if db == -math.inf else pytest.approx(db))
    found = errors.distribution()
    numbers = [db for db in known if math.isfinite(db)]
    assert (found.samples, found.exact, found.zero_reference, found.nonfinite) == (
        len(numbers),
        known.count(math.inf),
        known.count(-math.inf),
        0,
    )
    figures = [found.min_db, found.lower_quartile_db, found.median_db, found.upper_quartile_db, found.max_db]
    if numbers:
        assert figures == pytest.approx([np.percentile(numbers, part) for part in (0, 25, 50, 75, 100)])
    else:
        assert figures == [None] * 5


def test_new_nan_is_worse_than_an_error_without_a_signal_which_is_worse_than_any_ratio() -> None:
    errors = errors_of(([4, 4], [-4, -4]), ([0, 0], [0, 1]), ([1, 1], [1, np.nan]), ([0, 0], [2, 0]), ([1, 1], [1, 1]))

    assert [sample.number for sample in errors.worst] == [2, 3, 1, 0]
    assert [sample.nonfinite for sample in errors.worst] == [1, 0, 0, 0]
    assert [sample.zero_reference for sample in errors.worst] == [False, True, True, False]
    assert [sample.rankable_db for sample in errors.worst] == [None, None, None, pytest.approx(-6.0206, abs=1e-4)]
    found = errors.distribution()
    assert (found.samples, found.exact, found.zero_reference, found.nonfinite) == (1, 1, 2, 1)


def test_nan_in_both_at_one_place_is_no_error() -> None:
    assert errors_of(([1, np.nan], [1, np.nan])).worst == []


def test_a_sample_of_another_shape_counts_nowhere() -> None:
    errors = errors_of(([1, 2], [1]))

    assert errors.worst == []
    assert errors.distribution() is None


def test_of_equal_samples_the_first_stays() -> None:
    errors = errors_of(*[([4.0], [5.0])] * (2 * MOST))

    assert [sample.number for sample in errors.worst] == list(range(MOST))
    assert errors.worst[0].files == ("0",)


@pytest.mark.parametrize(
    ("sqnr_db", "median_db", "samples", "outlier"),
    [
        (40 - OUTLIER_DB - 0.1, 40, FEWEST, True),
        (40 - OUTLIER_DB, 40, FEWEST, False),
        (0, 40, FEWEST - 1, False),
        (None, 40, FEWEST, True),
        (None, None, 0, False),
    ],
)
def test_a_sample_stands_out_that_is_far_below_the_median_of_some(
    sqnr_db: float | None, median_db: float | None, samples: int, outlier: bool
) -> None:
    assert is_outlier(sqnr_db, median_db, samples) is outlier
