import itertools
import math

import numpy as np
import pytest

from qdqtool.jobs.reduction.minimal_subset import Guidance, minimal_subset


def guided(size: int) -> Guidance[int]:
    """The nearest number first; there is no other way to finish."""
    return Guidance(lambda needed, rest: sorted(rest, key=lambda item: min(abs(item - each) for each in needed)),
                    lambda *_: False)  # fmt: skip


def count_tests(core: set[int], guidance: Guidance[int] | None) -> int:
    """The tests that it takes to find a core in 1000 numbers."""
    tests = []

    def fails(items: list[int]) -> bool:
        tests.append(items)
        return core <= {*items}

    assert set(minimal_subset(range(1000), fails, guidance)) == core
    return len(tests)


@pytest.mark.parametrize("with_guidance", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_every_core_of_a_small_set_is_found_exactly(size: int, with_guidance: bool):
    cores = [set(core) for count in range(size + 1) for core in itertools.combinations(range(size), count)]
    for core in cores:
        found = minimal_subset(range(size), core.issubset, guided(size) if with_guidance else None)
        assert set(found) == core
        assert len(found) == len(core)


@pytest.mark.parametrize("with_guidance", [False, True])
def test_one_item_of_many_takes_the_tests_of_a_bisection_and_two_more(with_guidance: bool):
    for needed in (0, 1, 499, 500, 998, 999):
        assert count_tests({needed}, guided(1000) if with_guidance else None) <= math.ceil(math.log2(1000)) + 2


def test_a_neighbour_is_found_in_few_tests_and_a_distant_item_in_no_more_than_twice_a_bisection():
    first = count_tests({700}, guided(1000))
    assert count_tests({699, 700}, guided(1000)) <= first + 3
    assert count_tests({3, 700}, guided(1000)) <= first + 16


def test_no_subset_is_asked_of_twice_in_a_row_and_all_items_never():
    asked = []
    minimal_subset(range(64), lambda items: asked.append(tuple(items)) or {7, 50} <= {*items})
    assert all(len(items) < 64 for items in asked)
    assert all(one != other for one, other in itertools.pairwise(asked))


@pytest.mark.parametrize("seed", range(30))
def test_where_failures_are_not_monotone_the_result_fails_all_the_same(seed: int):
    rng = np.random.default_rng(seed)
    answers: dict[tuple[int, ...], bool] = {tuple(range(12)): True}

    def fails(items: list[int]) -> bool:
        return answers.setdefault(tuple(sorted(items)), bool(rng.integers(2)))

    assert fails(minimal_subset(range(12), fails))


def test_another_way_to_finish_is_asked_for_once_and_ends_the_search():
    asked = []

    def finish(needed: list[int], rest: list[int]) -> bool:
        asked.append((set(needed), set(rest)))
        return True

    found = minimal_subset(range(100), {10, 20, 30}.issubset, Guidance(guided(100).arrange, finish))
    assert set(found) == {30, 10}
    assert [needed for needed, _ in asked] == [{10, 30}]
    assert 20 in asked[0][1]
    asked.clear()
    declining = Guidance(guided(100).arrange, lambda *sets: asked.append(sets) or False)
    assert set(minimal_subset(range(100), {1, 10, 20, 30}.issubset, declining)) == {1, 10, 20, 30}
    assert len(asked) == 1
