"""How much an output varies over samples, beside its reference."""

import numpy as np
import pytest

from qdqtool.accuracy.checking.outputs import Variation

X = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def measured(reference: np.ndarray, found: np.ndarray) -> Variation:
    variation = Variation()
    for a, x in zip(reference, found, strict=True):
        variation.add(a, x)
    return variation


def test_no_constant_comes_closer_than_the_mean() -> None:
    reference = X + 1000
    least = float(np.sum((reference - np.mean(reference, 0, dtype=np.float64)) ** 2))
    variation = measured(reference, reference)
    assert variation.reference == pytest.approx(least)
    assert variation.reference_db == pytest.approx(60, abs=0.5)
    assert not variation.is_constant


def test_a_constant_is_one_bit_for_bit() -> None:
    found = np.ones_like(X)
    assert measured(X, found).is_constant
    found[7, 2] = np.nextafter(np.float32(1), np.float32(2))
    assert not measured(X, found).is_constant


@pytest.mark.parametrize("reference", [X[:1], np.where(X > 2, np.nan, X)])
def test_one_sample_and_nan_tell_nothing(reference: np.ndarray) -> None:
    variation = measured(reference, np.zeros_like(reference))
    assert variation.reference is None
    assert variation.is_zero


def test_shapes_that_differ_tell_nothing() -> None:
    variation = Variation()
    for rows in (2, 3):
        variation.add(X[:rows], X[:rows])
    assert variation.reference is None
    assert not variation.is_constant
