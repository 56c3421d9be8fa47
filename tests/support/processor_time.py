"""Hooks that write processor seconds into the file of ``--junit-xml``: of every test, and of collecting.

A test has the seconds of its own process and of the processes that it waited for, fixtures included. The first test
that a process runs also has the seconds until then: for start, imports and collection. A slow test has the reason of
its marker. Every hundredth test has the seconds of a fixed piece of work, which show how fast the machine is just
then. The last test of a process also has the seconds of its end: processes that served many tests end there.
``tools/times.py`` reads all of them.
"""

import gc
import os
import time
from collections.abc import Generator

import pytest

SECONDS, COLLECTING, ENDING, SLOW, WORK = "processor", "collecting", "ending", "slow", "work"
"""Names of the properties."""

_START = pytest.StashKey[float]()
_END = pytest.StashKey[float]()
_COUNT = pytest.StashKey[int]()
_EVERY = 100


def seconds() -> float:
    """Return the processor seconds of this process so far, and of the children that it waited for."""
    times = os.times()
    return time.process_time() + times.children_user + times.children_system


def work() -> float:
    """Return the processor seconds of a fixed piece of work."""
    start = time.process_time()
    sum(number * number % 7 for number in range(200_000))
    return time.process_time() - start


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without the garbage collector: 25 s, not 33 s, in a new checkout, and 10 s, not 12 s, afterwards.

    What is collected stays to the end, and the garbage collector never looks at it again: 1,120 tests take 35 s, not
    46 s.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note the reasons of slow tests.

    Raises:
        UsageError: A marker has no reason.
    """
    for item in items:
        marker = item.get_closest_marker("slow")
        if marker is None:
            continue
        if not marker.kwargs.get("reason"):
            raise pytest.UsageError(f'{item.nodeid}: say what takes the time: slow(reason="…")')
        item.user_properties.append((SLOW, marker.kwargs["reason"]))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note when a test begins."""
    if _START not in item.config.stash:
        item.user_properties.append((COLLECTING, f"{seconds():.2f}"))
    count = item.config.stash.get(_COUNT, 0)
    item.config.stash[_COUNT] = count + 1
    if count % _EVERY == 0:
        item.user_properties.append((WORK, f"{work():.4f}"))
    item.config.stash[_START] = seconds()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Note when the last test ends."""
    if nextitem is None:
        item.config.stash[_END] = seconds()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Note what a test took, once its fixtures are gone."""
    if call.when == "teardown":
        now = seconds()
        end = item.config.stash.get(_END, now)
        item.user_properties.append((SECONDS, f"{end - item.config.stash[_START]:.3f}"))
        if end < now:
            item.user_properties.append((ENDING, f"{now - end:.2f}"))
