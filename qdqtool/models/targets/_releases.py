"""Releases of a target: its module describes the newest; older ones are derived by removing later changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qdqtool.models.targets._target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The changes of one release.

    Attributes:
        since: The release, such as ``10.8``.
        summary: The changes in words.
        evidence: The source of that knowledge.
        brings: Types, operators and attributes (``DequantizeLinear.output_dtype``) that the releases before it refuse.
        before: Fields of :class:`Target` as they are for the releases before it.
    """

    since: str
    summary: str
    evidence: str
    brings: frozenset[str] = frozenset()
    before: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Releases:
    """The releases of one target.

    Attributes:
        title: The product without a release.
        verified: The source of the facts about releases.
        numbers: Major and minor number of each, oldest first.
        changes: Their changes, newest first. A release without a change is like the one before it.
    """

    title: str
    verified: str
    numbers: tuple[str, ...]
    changes: tuple[Change, ...]

    def older(self, newest: Target, number: str) -> Target:
        """Return the target as it was in the release ``number``, one of :attr:`numbers`."""
        target = replace(
            newest, id=f"{newest.id}-{number}", title=f"{self.title} {number}", verified=self.verified, later={}
        )
        for change in self.changes:
            if _order(number) < _order(change.since):
                target = _before(target, change)
        return target


def _before(target: Target, change: Change) -> Target:
    less = replace(
        target,
        quantize_types=target.quantize_types - change.brings,
        dequantize_types=target.dequantize_types - change.brings,
        initializer_types=target.initializer_types - change.brings if target.initializer_types is not None else None,
        later={**target.later, **dict.fromkeys(change.brings, change.since)},
    )
    return replace(less, **dict(change.before))  # type: ignore[arg-type]  # the values are checked by a test


def _order(number: str) -> tuple[int, ...]:
    """Return a sort key that puts ``10.8`` before ``10.15``."""
    return tuple(map(int, number.split(".")))
