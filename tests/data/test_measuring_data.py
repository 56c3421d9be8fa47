"""What is said of the samples that are measured on."""

import pytest
from support.feeds import numbered

from qdqtool.data.measuring_data import TOO_FEW, MeasuringData, measuring_part
from qdqtool.data.split import split_samples, undivided


@pytest.mark.parametrize(("count", "held"), [(3, 0), (4, 1), (8, 4)])
def test_held_back_samples_are_measured_on_where_there_are_some(count, held):
    feeds = numbered(count)
    found = measuring_part(feeds, split_samples(count))
    assert (found.held_back, found.reason, found.validation) == (held > 0, "" if held else TOO_FEW, None)
    assert len(found.feeds) == (held or count)


def test_where_nothing_is_divided_all_samples_are_measured_on():
    feeds = numbered(9)
    assert measuring_part(feeds, undivided(9)) == MeasuringData(feeds=feeds, reason=TOO_FEW)
