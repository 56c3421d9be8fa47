"""Run work in threads on all cores, and find the memory of the machine.

NumPy and compiled kernels release the interpreter lock, so threads work at the same time.

The threads are started once and kept. A model has hundreds of weights, and starting threads for each of them took a
tenth of the time of quantizing them. A piece of work has the context variables of its caller.
"""

import contextlib
import functools
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from pathlib import Path
from typing import TypeVar

from qdqtool.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 4
"""Largest number of pieces of work at the same time, on any number of cores: each has its own arrays in memory."""

LARGE = 1 << 26
"""Number of bytes from which an array is large: memory should never hold two such arrays."""

BOUNDS = "QDQTOOL_BOUNDS"
"""The environment variable with the factor by which a user raises the bounds on the growth of models."""

_ASSUMED_MEMORY = 1 << 34
_THREAD = threading.local()


def cores() -> int:
    """Return the number of processors that this process may run on."""
    # Fewer than os.cpu_count() in many containers. macOS and Windows lack this function.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.cache
def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the container that the process runs in."""
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else _ASSUMED_MEMORY]
    # The file is absent outside a control group, and contains "max" without a limit.
    with contextlib.suppress(OSError, ValueError):
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii")))
    return min(found)


def growth_factor() -> float:
    """Return the factor of :data:`BOUNDS`; 1 by default."""
    text = os.environ.get(BOUNDS) or "1"
    factor = 0.0
    with contextlib.suppress(ValueError):
        factor = float(text)
    if not factor > 0:
        raise UsageError(f"{BOUNDS} is '{text}'; it must be a number above 0")
    return factor


def on_all_cores(work: Callable[[Item], object], parts: Sequence[Item]) -> None:
    """Do ``work`` on every part, on one part per core at a time; raise the first error.

    A call from inside ``work`` uses no other threads: it runs in the thread of its part.
    """
    if len(parts) < 2 or getattr(_THREAD, "is_worker", False):
        for part in parts:
            work(part)
        return
    # A context can be entered once at a time.
    contexts = (copy_context() for _ in parts)
    list(_pool(cores()).map(Context.run, contexts, itertools.repeat(work), parts))


def ahead(
    make: Callable[[Item], Result],
    items: Iterable[Item],
    count: int = 1,
    *,
    one_core: bool = False,
    by_itself: Callable[[Item], bool] = lambda _: False,
) -> Iterator[Result]:
    """Yield ``make(item)`` for each item in order, while the next results are being made.

    The thread of the caller iterates over ``items``. An error of ``make`` is raised in place of its result.

    Args:
        make: A function that makes a result; ``count`` threads call it.
        items: The items.
        count: Number of results that are made ahead. They are in memory in addition to the yielded result.
        one_core: Whether each result is made on one core; otherwise ``make`` may use :func:`on_all_cores`.
        by_itself: Whether no other result may be made at the same time, for example because this one is large.
    """
    with ThreadPoolExecutor(count, "ahead", initializer=_mark_worker if one_core else None) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                if by_itself(item):
                    yield from _ended(waiting, 0)
                    yield make(item)
                else:
                    waiting.append(pool.submit(copy_context().run, make, item))
                    yield from _ended(waiting, count)
            yield from _ended(waiting, 0)
        finally:
            for future in waiting:
                future.cancel()


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], by_itself: Callable[[Item], bool] = lambda _: False
) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order. Up to :data:`MOST` items run at the same time.

    Args:
        work: A function that may run in another thread, at the same time as on other items.
        items: The arguments of ``work``, one for each call.
        by_itself: As for :func:`ahead`.
    """
    workers = min(cores(), MOST)
    return map(work, items) if workers == 1 else ahead(work, items, workers, by_itself=by_itself)


def _ended(waiting: deque[Future[Result]], left: int) -> Iterator[Result]:
    """Yield the oldest results until only ``left`` results remain."""
    while len(waiting) > left:
        yield waiting.popleft().result()


def call(make: Callable[[], Result]) -> Result:
    """Return ``make()``: the function to give to :func:`ahead` if the items are functions."""
    return make()


@functools.cache
def _pool(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count, "core", initializer=_mark_worker)


def _mark_worker() -> None:
    _THREAD.is_worker = True


# A forked process has the pool but not its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
