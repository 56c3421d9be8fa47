"""Moves of a search: units that get another level, alone and together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.fallback import Level, Levels


@dataclass(frozen=True, slots=True)
class Move:
    """A unit, by its number, and the level that it gets."""

    number: int
    level: Level


def moved(levels: Levels, moves: Sequence[Move]) -> Levels:
    """Return the levels after some moves: the highest one of those that a unit gets."""
    wanted: dict[int, Level] = {}
    for move in moves:
        wanted[move.number] = max(move.level, wanted.get(move.number, move.level))
    return tuple(wanted.get(number, level) for number, level in enumerate(levels))


def sets_to_try(order: Sequence[Move], count: int) -> Iterator[list[tuple[Move, ...]]]:
    """Yield the sets of moves to try together, until one of them is better: those with the best predictions first.

    Predictions may be wrong for the first ones. Where no few moves are better, since errors of layers partly cancel
    out, more and more at once are: in the end all of them, which is the float model.

    Args:
        order: The moves, the one with the best prediction first.
        count: How many of them are tried at a time, alone and together.
    """
    for start in range(0, len(order), count):
        batch = order[start : start + count]
        yield list(dict.fromkeys([(move,) for move in batch[: count // 2]] + [tuple(batch[:2]), tuple(batch)]))
    larger = 2 * count
    while larger // 2 < len(order):
        yield [tuple(order[:larger])]
        larger *= 2
