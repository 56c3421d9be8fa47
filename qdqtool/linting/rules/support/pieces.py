"""A sample of a large array: pieces of it, evenly spread."""

import numpy as np
import numpy.typing as npt

PIECES, PIECE = 16, 4096
"""The number of pieces, and the number of neighbouring values in each."""


def places(size: int) -> npt.NDArray[np.int64]:
    """Return the places to look at in a flat array of ``size`` elements: all of a small one."""
    if size <= PIECES * PIECE:
        return np.arange(size)
    starts = np.linspace(0, size - PIECE, PIECES).astype(np.int64)
    return (starts[:, None] + np.arange(PIECE)).reshape(-1)
