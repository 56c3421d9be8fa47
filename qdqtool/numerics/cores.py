"""Share work among the cores of the machine: NumPy and compiled kernels release the interpreter lock.

The threads are started once and kept. A model has hundreds of weights, and starting threads for each of them took a
tenth of the time of quantizing them.
"""

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 4
"""Pieces of work at once on a machine with many cores: each has its own arrays in memory."""

LARGE = 1 << 26
"""Bytes of an array of which there should be no second one in memory."""

_THREAD = threading.local()


def cores() -> int:
    """Return the number of processors that this process may run on."""
    # Fewer than os.cpu_count() in many containers; not on macOS and Windows.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def on_all_cores(work: Callable[[Item], object], parts: Sequence[Item]) -> None:
    """Do ``work`` on every part, on as many parts at a time as there are cores; raise the first error.

    Work that is shared out from within a part is done by the thread of that part.
    """
    if len(parts) < 2 or getattr(_THREAD, "is_worker", False):
        for part in parts:
            work(part)
        return
    list(_pool(cores()).map(work, parts))


def ahead(
    make: Callable[[Item], Result],
    items: Iterable[Item],
    count: int = 1,
    *,
    one_core: bool = False,
    by_itself: Callable[[Item], bool] = lambda _: False,
) -> Iterator[Result]:
    """Yield ``make(item)`` of each item in order, while the next ones are being made.

    Items are taken one after the other, in the thread of the caller. An error is raised where its result would come.

    Args:
        make: Makes a result; called from so many threads.
        items: The items.
        count: Results that are made ahead: so many are in memory beside the one that was yielded.
        one_core: Whether each result is made on one core; otherwise it may share its work with :func:`on_all_cores`.
        by_itself: Whether nothing else may be made beside an item, as where its result is large.
    """
    with ThreadPoolExecutor(count, "ahead", initializer=_mark_worker if one_core else None) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                if by_itself(item):
                    yield from _ended(waiting, 0)
                    yield make(item)
                else:
                    waiting.append(pool.submit(make, item))
                    yield from _ended(waiting, count)
            yield from _ended(waiting, 0)
        finally:
            for future in waiting:
                future.cancel()


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], by_itself: Callable[[Item], bool] = lambda _: False
) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order, on all cores but no more than :data:`MOST`.

    Args:
        work: A function that may run in another thread, at the same time as on other items.
        items: Its arguments, one for each call.
        by_itself: As :func:`ahead` takes it.
    """
    workers = min(cores(), MOST)
    return map(work, items) if workers == 1 else ahead(work, items, workers, by_itself=by_itself)


def _ended(waiting: deque[Future[Result]], left: int) -> Iterator[Result]:
    """Yield the oldest results until only ``left`` are waited for."""
    while len(waiting) > left:
        yield waiting.popleft().result()


def call(make: Callable[[], Result]) -> Result:
    """Call a maker: what :func:`ahead` does with items that make themselves."""
    return make()


@functools.cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "core", initializer=_mark_worker)


def _mark_worker() -> None:
    _THREAD.is_worker = True


# A forked process has the pool but not its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
