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
    make: Callable[[Item], Result], items: Iterable[Item], count: int = 1, *, alone: bool = False
) -> Iterator[Result]:
    """Yield ``make(item)`` of each item in order, while the next ones are being made.

    Args:
        make: Makes a result; called from so many threads.
        items: The items, taken one after the other in the thread of the caller.
        count: Results that are made ahead: so many are in memory beside the one that was yielded.
        alone: Whether each result is made on one core; otherwise it may share its work with :func:`on_all_cores`.
    """
    with ThreadPoolExecutor(count, "ahead", initializer=_mark_worker if alone else None) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


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
