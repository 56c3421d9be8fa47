"""What is said of the samples that are measured on."""

from dataclasses import replace

import numpy as np
import pytest
from support.feeds import numbered

from qdqtool.samples.feeds import Feeds
from qdqtool.samples.split import ALL_EQUAL, TOO_FEW, MeasuringData, measuring_part, split_samples, undivided


@pytest.mark.parametrize(("count", "held"), [(3, 0), (4, 1), (8, 4)])
def test_held_back_samples_are_measured_on_where_there_are_some(count, held):
    feeds = numbered(count)
    found = measuring_part(feeds, split_samples(count))
    assert (found.held_back, found.reason, found.validation) == (held > 0, "" if held else TOO_FEW, None)
    assert len(found.feeds) == (held or count)


def test_where_nothing_is_divided_all_samples_are_measured_on():
    feeds = numbered(9)
    assert measuring_part(feeds, undivided(9)) == MeasuringData(feeds=feeds, reason=TOO_FEW)


def _repeated(values: list[int]) -> Feeds:
    feeds = numbered(len(values))
    samples = [{"x": np.full(1, value, np.float32)} for value in values]
    return Feeds(samples, replace(feeds.description, repeated=len(values) - len(set(values))))


def test_what_equals_a_sample_that_chose_is_not_held_back():
    """Copies of one sample would show that it is kept as well as it was chosen with."""
    split = split_samples(16)
    values = list(range(16))
    values[split.held[0]], values[split.held[2]] = values[split.choosing[3]], values[split.held[1]]
    found = measuring_part(_repeated(values), split)
    assert found.held_back
    assert [int(sample["x"][0]) for sample in found.feeds] == [values[number] for number in split.held[1:]]
    alike = measuring_part(_repeated([7] * 16), split)
    assert (alike.held_back, alike.reason, len(alike.feeds)) == (False, ALL_EQUAL, 4)
