"""Releases of a target: the newest as its module describes it, an older one less what came after it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qdqtool.targets._target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one release brought.

    Attributes:
        since: The release, such as ``10.8``.
        summary: What it brought, for people.
        evidence: How that is known.
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
        verified: What the facts about releases rest on.
        numbers: Major and minor number of each, oldest first.
        changes: What they brought, newest first. A release that no change names is like the one before it.
    """

    title: str
    verified: str
    numbers: tuple[str, ...]
    changes: tuple[Change, ...]

    def older(self, newest: Target, number: str) -> Target:
        """The target as it was in the release ``number``, which is one of :attr:`numbers`."""
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
    """``10.8`` before ``10.15``."""
    return tuple(map(int, number.split(".")))
