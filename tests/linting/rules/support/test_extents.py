"""How far numbers are off, as baselines compare it."""

import numpy as np
import pytest

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.support.extents import FARTHEST, octaves, of_values


@pytest.mark.parametrize(
    ("value", "wanted", "off"),
    [
        (0.5, 0.5, 0.0),
        (2.0, 0.5, 2.0),
        (0.5, 2.0, 2.0),
        (-0.5, -2.0, 2.0),
        (np.nan, np.nan, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 0.5, FARTHEST),
        (0.5, 0.0, FARTHEST),
        (-0.5, 0.5, FARTHEST),
        (np.nan, 0.5, FARTHEST),
        (np.inf, 0.5, FARTHEST),
        (np.inf, np.inf, 0.0),
        (5e-324, 1e308, pytest.approx(2097.1, abs=0.1)),
    ],
)
def test_octaves(value: float, wanted: float, off: float):
    assert octaves(np.array([value]), np.array([wanted])).tolist() == [off]


def test_an_extent_has_the_number_and_the_worst_of_what_is_wrong():
    bad = np.array([[True, False], [True, True]])

    assert of_values("scale", bad, np.array([[1.0, 9.0], [3.0, 2.0]])) == Extent("scale", 3, 3.0)
    assert of_values("scale", bad) == Extent("scale", 3, 0.0)
    assert of_values("scale", bad, np.inf) == Extent("scale", 3, FARTHEST)


@pytest.mark.parametrize(
    ("now", "known", "worse"),
    [
        (Extent("", 1, 1.0), Extent("", 1, 1.0), False),
        (Extent("", 2, 1.0), Extent("", 1, 1.0), True),
        (Extent("", 1, 1.09), Extent("", 1, 1.0), False),
        (Extent("", 1, 1.2), Extent("", 1, 1.0), True),
        (Extent("", 1, 0.5), Extent("", 3, 1.0), False),
        (Extent("", 1, 2.0), Extent("", 3, 1.0), True),
    ],
)
def test_worse_is_more_or_over_a_tenth_farther(now: Extent, known: Extent, worse: bool):
    assert now.is_worse_than(known) == worse
