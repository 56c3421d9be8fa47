"""Delta debugging: find a small subset of items that still fails, with few tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")

_GROWTH = 4
"""The most likely items are tried first, in groups that grow by this factor. A larger factor needs fewer tests for an
unlikely item, and more tests for a likely one.
"""


@dataclass(frozen=True, slots=True)
class Guidance(Generic[Item]):
    """Functions that make a search faster by knowledge about its items.

    Attributes:
        arrange: Gets the needed and the remaining items, and sorts the remaining ones; the most likely come first.
        finish: Gets the needed items and the rest, and tries to make the needed items fail without leaving out the
            rest. Returns whether that worked. It is called once, when two items are needed.
    """

    arrange: Callable[[list[Item], list[Item]], list[Item]]
    finish: Callable[[list[Item], list[Item]], bool]


def minimal_subset(
    items: Sequence[Item], fails: Callable[[list[Item]], bool], guidance: Guidance[Item] | None = None
) -> list[Item]:
    """Return a subset of items that fails: a subset for which ``fails`` was true, or all items.

    Each item of the result is the last item of the shortest failing prefix, as in QuickXplain (Junker 2004). If every
    superset of a failing set fails too, no item of the result can be left out, and a result of ``k`` out of ``n`` items
    takes about ``k log2(n)`` tests. If failures are not monotone, the result still fails, but may be larger than
    necessary.

    Args:
        items: All items; together they are known to fail.
        fails: Returns whether a subset fails.
        guidance: Decides which items are tried first; None to try halves in the given order.
    """
    needed: list[Item] = []
    rest = list(items)
    while rest:
        if fails(needed) or (len(needed) == 2 and guidance is not None and guidance.finish(needed, rest)):
            return needed
        is_guided = guidance is not None and bool(needed)
        if guidance is not None and is_guided:
            rest = guidance.arrange(needed, rest)
        count = _shortest(needed, rest, fails, grows=is_guided)
        needed = [*needed, rest[count - 1]]
        rest = rest[: count - 1]
    return needed


def _shortest(needed: list[Item], rest: list[Item], fails: Callable[[list[Item]], bool], *, grows: bool) -> int:
    """Return how many of the first items of ``rest`` are needed to fail together with ``needed``; all together fail."""
    passing, failing = 0, len(rest)
    while grows and (count := _GROWTH * passing + 1) < failing:
        if fails([*needed, *rest[:count]]):
            failing = count
            break
        passing = count
    while failing - passing > 1:
        middle = (passing + failing) // 2
        if fails([*needed, *rest[:middle]]):
            failing = middle
        else:
            passing = middle
    return failing
