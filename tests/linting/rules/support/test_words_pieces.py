"""Samples of large arrays: 16 pieces of 4096 neighbours, from the first element to the last."""

import numpy as np
import pytest

from qdqtool.linting.rules.support.words import places


@pytest.mark.parametrize("size", [0, 1, 4096, 65_535, 65_536])
def test_of_a_small_array_all_is_looked_at(size: int):
    np.testing.assert_array_equal(places(size), np.arange(size))


@pytest.mark.parametrize("size", [65_537, 65_551, 100_000, 10_000_019])
def test_of_a_large_array_16_pieces_are(size: int):
    pieces = places(size).reshape(16, 4096)

    assert (pieces[0, 0], pieces[-1, -1]) == (0, size - 1)
    assert (np.diff(pieces, axis=1) == 1).all()
    assert np.ptp(np.diff(pieces[:, 0])) <= 1
