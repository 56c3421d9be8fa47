"""Run a check once for all targets that differ only in fields that it does not read.

A check is a function of the context and of the fields of the target that it reads. Targets with equal values in all of
those have the same faults: most rules read none, and run once however many targets are asked for.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar, cast

from qdqtool.models.targets import Target

Found = TypeVar("Found")


class Memo(Generic[Found]):
    """The results of one check for the targets it was run for."""

    def __init__(self) -> None:
        self._results: list[tuple[dict[str, object], tuple[Found, ...]]] = []

    def recall(self, target: Target, check: Callable[[Target], Iterator[Found]]) -> tuple[Found, ...]:
        """Return what ``check`` yields for ``target``; run it only where no earlier run read the same values."""
        for seen, found in self._results:
            if all(getattr(target, name) == value for name, value in seen.items()):
                return found
        watched = _Watched(target)
        found = tuple(check(cast("Target", watched)))
        self._results.append((watched.seen, found))
        return found


class _Watched:
    """A stand-in for a target that records which of its fields are read."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.seen: dict[str, object] = {}

    def __getattr__(self, name: str) -> object:
        value: object = getattr(self._target, name)
        self.seen[name] = value
        # As an attribute of its own, so that the next read does not come here.
        setattr(self, name, value)
        return value
