"""Work is shared among the cores, and results come in the order of their items."""

import itertools
import os
import threading
from pathlib import Path

import pytest

from qdqtool.numerics import cores
from qdqtool.numerics.cores import ahead, on_all_cores, side_by_side


def test_processors_are_those_of_this_process_where_the_system_tells(monkeypatch):
    allowed = {0: {3, 5, 6}}
    monkeypatch.setattr(os, "sched_getaffinity", allowed.__getitem__, raising=False)
    assert cores.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    for count, expected in ((12, 12), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert cores.cores() == expected


def test_every_part_is_done_once():
    done = []
    on_all_cores(done.append, range(100))
    assert sorted(done) == list(range(100))


def test_parts_run_at_the_same_time(monkeypatch):
    monkeypatch.setattr(cores, "cores", lambda: 2)
    both = threading.Barrier(2)
    on_all_cores(lambda _part: both.wait(timeout=20), [0, 1])


def test_a_single_part_needs_no_other_thread():
    threads = []
    on_all_cores(lambda _part: threads.append(threading.current_thread()), [0])
    assert threads == [threading.current_thread()]


def test_work_that_is_shared_out_within_a_part_is_done_by_its_thread(monkeypatch):
    monkeypatch.setattr(cores, "cores", lambda: 2)
    threads = []

    def part(number):
        mine = threading.current_thread()
        on_all_cores(lambda _inner: threads.append((number, threading.current_thread() is mine)), range(3))

    on_all_cores(part, range(5))
    assert sorted(threads) == [(number, True) for number in range(5) for _ in range(3)]


def test_the_first_error_is_raised():
    def work(part):
        if part:
            raise ValueError(part)

    with pytest.raises(ValueError, match=r"^1$"):
        on_all_cores(work, range(5))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_starts_threads_of_its_own():
    on_all_cores(lambda _part: None, range(4))
    assert cores._pool.cache_info().currsize
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, str(cores._pool.cache_info().currsize).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 10) == b"0"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 10])
def test_results_come_in_the_order_of_their_items(count, items):
    assert list(ahead(lambda item: item * item, range(items), count)) == [item * item for item in range(items)]


def test_the_next_result_is_made_while_one_is_used():
    made = {number: threading.Event() for number in range(3)}

    def make(number):
        made[number].set()
        return number

    results = ahead(make, itertools.count(), 1)
    assert next(results) == 0
    assert made[1].wait(timeout=20)
    assert not made[2].is_set()
    results.close()


def test_an_error_comes_where_its_result_would_be():
    def make(number):
        if number == 1:
            raise ValueError(number)
        return number

    results = ahead(make, range(100))
    assert next(results) == 0
    with pytest.raises(ValueError, match=r"^1$"):
        next(results)


@pytest.mark.parametrize("count", [1, 2, 64])
def test_work_side_by_side_keeps_the_order_of_its_items(monkeypatch, count):
    monkeypatch.setattr(cores, "cores", lambda: count)
    assert list(side_by_side(lambda item: item * item, range(50))) == [item * item for item in range(50)]


@pytest.mark.parametrize("count", [2, 64])
def test_calls_run_at_the_same_time_and_no_more_than_allowed(monkeypatch, count):
    monkeypatch.setattr(cores, "cores", lambda: count)
    workers = min(count, cores.MOST)
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


def test_an_item_that_is_made_by_itself_runs_when_all_before_it_are_done(monkeypatch):
    monkeypatch.setattr(cores, "cores", lambda: 2)
    running, largest = set(), []

    def work(item):
        running.add(item)
        largest.append((item, len(running)))
        running.remove(item)
        return item

    found = list(side_by_side(work, range(30), lambda item: item % 3 == 0))
    assert found == list(range(30))
    assert [beside for item, beside in largest if item % 3 == 0] == [1] * 10


def test_an_error_of_work_side_by_side_is_raised_where_its_result_would_come(monkeypatch):
    monkeypatch.setattr(cores, "cores", lambda: 2)
    results = side_by_side(lambda item: 1 / item, [1, 2, 0, 4])
    assert [next(results), next(results)] == [1, 0.5]
    with pytest.raises(ZeroDivisionError):
        next(results)


@pytest.mark.parametrize(("limit", "expected"), [("max\n", 1 << 33), (f"{1 << 30}\n", 1 << 30), (None, 1 << 33)])
def test_the_memory_is_that_of_the_container_if_it_has_less(monkeypatch, limit, expected):
    def read(path, encoding):
        if limit is None:
            raise FileNotFoundError(path)
        return limit

    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1 << 21, "SC_PAGE_SIZE": 1 << 12}.__getitem__)
    monkeypatch.setattr(Path, "read_text", read)
    assert cores.machine_memory.__wrapped__() == expected
