"""Every calibrator: what holds for all of them, and what each of them is."""

import pytest

from qdqtool import calibrators, formats
from qdqtool.errors import ArgumentError
from qdqtool.ranges import TensorRange

GOAL = calibrators.Goal(format=formats.get("int8"))
SEEN = [TensorRange(-3.0, 2.0, 3.0, 10), TensorRange(0.0, 0.0, 0.0, 1), TensorRange(1e-30, 1e30, 1e30, 2)]


@pytest.mark.parametrize("name", calibrators.names())
@pytest.mark.parametrize("seen", SEEN)
def test_the_range_lies_between_zero_and_the_largest_magnitude_seen(name, seen):
    assert 0 <= calibrators.get(name).threshold(seen, GOAL).amax <= seen.amax


def test_max_is_the_largest_magnitude():
    assert [calibrators.get("max").threshold(seen, GOAL).amax for seen in SEEN] == [3.0, 0.0, 1e30]


def test_an_unknown_method_lists_the_legal_ones():
    with pytest.raises(ArgumentError, match=r"method 'maxx' is unknown; legal: .*max.*; did you mean 'max'"):
        calibrators.get("maxx")
