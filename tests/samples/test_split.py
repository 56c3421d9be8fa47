"""The samples that choose, and the hold-out samples."""

import pytest
from support.feeds import numbered

from qdqtool.samples.split import split_samples, undivided


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
