"""Work on several cores gives its results in order, and at most a few at once."""

import threading

import pytest

from qdqtool.numerics import side_by_side as module
from qdqtool.numerics.side_by_side import MOST, side_by_side


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_results_come_in_the_order_of_the_items(monkeypatch, cores):
    monkeypatch.setattr(module, "cores", lambda: cores)
    assert list(side_by_side(lambda item: item * item, range(50))) == [item * item for item in range(50)]


@pytest.mark.parametrize("cores", [2, 64])
def test_calls_run_at_the_same_time_and_no_more_than_allowed(monkeypatch, cores):
    monkeypatch.setattr(module, "cores", lambda: cores)
    workers = min(cores, MOST)
    together, taken = threading.Barrier(workers), []

    def items():
        for item in range(2 * workers):
            taken.append(item)
            yield item

    def work(item):
        together.wait(timeout=60)
        return item, len(taken)

    for item, seen in side_by_side(work, items()):
        assert seen <= item + 2 * workers - 1


def test_an_item_that_wants_to_be_alone_runs_when_all_before_it_are_done(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 2)
    running, largest = set(), []

    def work(item):
        running.add(item)
        largest.append((item, len(running)))
        running.remove(item)
        return item

    found = list(side_by_side(work, range(30), lambda item: item % 3 == 0))
    assert found == list(range(30))
    assert [beside for item, beside in largest if item % 3 == 0] == [1] * 10


def test_an_error_is_raised_where_its_result_would_come(monkeypatch):
    monkeypatch.setattr(module, "cores", lambda: 2)
    results = side_by_side(lambda item: 1 / item, [1, 2, 0, 4])
    assert [next(results), next(results)] == [1, 0.5]
    with pytest.raises(ZeroDivisionError):
        next(results)
