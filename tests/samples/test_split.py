"""The samples that choose, those that are held back, and what is said of those that are measured on."""

from dataclasses import replace

import numpy as np
import pytest
from support.feeds import numbered

from qdqtool.samples.feeds import Feeds
from qdqtool.samples.split import ALL_EQUAL, TOO_FEW, MeasuringData, measuring_part, split_samples, undivided


@pytest.mark.parametrize(
    ("count", "held"), [(0, 0), (1, 0), (3, 0), (4, 1), (7, 1), (8, 4), (16, 4), (20, 4), (25, 5), (100, 20)]
)
def test_a_fifth_is_held_back_and_four_of_eight(count: int, held: int) -> None:
    split = split_samples(count)
    assert len(split.held) == held
    assert sorted((*split.choosing, *split.held)) == list(range(count))


def test_the_split_depends_on_count_and_seed_alone() -> None:
    # Written down, because ranges files and reports of other machines must agree with it.
    assert split_samples(16).held == (4, 7, 9, 15)
    assert any(split_samples(16, seed).held != split_samples(16).held for seed in range(1, 5))


def test_samples_that_alternate_are_divided_without_a_pattern() -> None:
    """Every part gets samples of both kinds where data alternates between two."""
    for count in (16, 20, 32, 64, 100):
        held = split_samples(count).held
        assert 0 < sum(number % 2 for number in held) < len(held)


def test_feeds_are_divided_in_the_order_of_the_data() -> None:
    feeds, split = numbered(16), split_samples(16)
    held = split.held_of(feeds)
    assert held is not None
    assert len(held) == 4
    assert tuple(int(sample["x"][0]) for sample in held) == split.held
    choosing = split.choosing_of(feeds)
    assert tuple(int(sample["x"][0]) for sample in choosing.first(3)) == split.choosing[:3]
    assert [int(sample["x"][0]) for sample in choosing] == list(split.choosing)


def test_too_few_samples_all_choose() -> None:
    feeds = numbered(2)
    assert split_samples(2).choosing_of(feeds) is feeds
    assert split_samples(2).held_of(feeds) is None


def test_undivided_samples_all_choose() -> None:
    feeds = numbered(20)
    assert undivided(20).choosing == tuple(range(20))
    assert undivided(20).choosing_of(feeds) is feeds
    assert undivided(20).held_of(feeds) is None


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
