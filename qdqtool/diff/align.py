"""Which of several Q/DQ steps at one place are the same step in two models."""

from collections.abc import Callable, Sequence
from typing import TypeVar

Each = TypeVar("Each")


def align(
    before: Sequence[Each], after: Sequence[Each], equal: Callable[[Each, Each], bool]
) -> tuple[list[tuple[Each, Each]], list[Each], list[Each]]:
    """Pair up two short sequences: equal items first, in order, then what is left between them, in order.

    Returns:
        The pairs, what is left of ``before`` and what is left of ``after``.
    """
    if len(before) == len(after):
        return list(zip(before, after, strict=True)), [], []
    pairs: list[tuple[Each, Each]] = []
    rest, others = list(before), list(after)
    for item in before:
        twin = next((other for other in others if equal(item, other)), None)
        if twin is not None:
            pairs.append((item, twin))
            rest.remove(item)
            others.remove(twin)
    shared = min(len(rest), len(others))
    return [*pairs, *zip(rest[:shared], others[:shared], strict=True)], rest[shared:], others[shared:]
