"""The kernel of :mod:`qdqtool.numerics.counting`, compiled by numba. Imported only when it is used."""

from typing import Any

import numpy as np

from qdqtool.numerics.compiled.rows import compiled
from qdqtool.numerics.counting import BINS
from qdqtool.numerics.dtypes import Array

_PIECE = 1024
_LANES = 4


def _count(x: Array, factor: Any, table: Array) -> None:
    """Count magnitudes: compute the places of a piece in vectors, then count neighbors in separate tables."""
    # With one table, a run of equal values, such as the zeros of a Relu, would be a chain of dependent additions.
    lanes = np.zeros((_LANES, BINS + 1), np.uint32)
    places = np.empty(_PIECE, np.int32)
    whole = x.size // _PIECE * _PIECE
    for start in range(0, whole, _PIECE):
        for i in range(_PIECE):
            value = abs(x[start + i])
            # Place 0 counts exact zeros. The factor is a power of two, so the product is exact and the cast is a
            # floor.
            places[i] = np.int32(value * factor) + np.int32(value > 0)
        for i in range(0, _PIECE, _LANES):
            lanes[0, places[i]] += np.uint32(1)
            lanes[1, places[i + 1]] += np.uint32(1)
            lanes[2, places[i + 2]] += np.uint32(1)
            lanes[3, places[i + 3]] += np.uint32(1)
    for i in range(whole, x.size):
        value = abs(x[i])
        lanes[0, np.int32(value * factor) + np.int32(value > 0)] += np.uint32(1)
    for lane in range(_LANES):
        for i in range(BINS + 1):
            table[i] += lanes[lane, i]


count = compiled(_count)
