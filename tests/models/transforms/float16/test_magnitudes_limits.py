"""The limits of float16 are those that numpy states."""

import numpy as np

from qdqtool.models.transforms.float16.magnitudes import FINITE, LARGEST, NORMAL, TINIEST


def test_the_limits_are_those_of_the_format() -> None:
    half = np.finfo(np.float16)
    assert (float(half.max), float(half.smallest_normal), float(half.smallest_subnormal)) == (FINITE, NORMAL, TINIEST)
    assert 4 * LARGEST == FINITE
