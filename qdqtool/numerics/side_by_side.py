"""Do independent pieces of work on several cores, and take the results in the order of the pieces.

NumPy and ONNX Runtime release the interpreter lock while they compute, so threads are enough.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from qdqtool.numerics.cores import cores

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST = 4
"""Pieces of work at once on a machine with many cores: each has its own arrays in memory."""

LARGE = 1 << 26
"""Bytes of an array of which there should be no second one in memory."""


def side_by_side(
    work: Callable[[Item], Result], items: Iterable[Item], alone: Callable[[Item], bool] = lambda _: False
) -> Iterator[Result]:
    """Yield ``work(item)`` for each item, in order; up to :data:`MOST` calls run at once, one on a core.

    Items are taken one after the other, and only as many as are worked on. An error is raised where its result would
    be yielded.

    Args:
        work: A function that may run in another thread, at the same time as on other items.
        items: What it is called with.
        alone: Whether nothing else may run beside an item, as where its result is large.
    """
    workers = min(cores(), MOST)
    if workers == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            if alone(item):
                yield from _ended(waiting, 0)
                yield work(item)
                continue
            waiting.append(pool.submit(work, item))
            yield from _ended(waiting, workers - 1)
        yield from _ended(waiting, 0)


def _ended(waiting: deque[Future[Result]], left: int) -> Iterator[Result]:
    """Yield the oldest results until only ``left`` are waited for."""
    while len(waiting) > left:
        yield waiting.popleft().result()
