"""The states that a search comes by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.accuracy.layers.fallback import Level, Levels
from qdqtool.accuracy.layers.output_noise import WORST_DB, OutputNoise
from qdqtool.accuracy.layers.units import Unit
from qdqtool.numerics.dtypes import Array


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


def shortfall(sqnr: Array, goal_db: float) -> Array:
    """Return the sum over outputs, the last axis, of what they lack of the goal, in dB."""
    return np.asarray(np.maximum(goal_db - sqnr, 0.0).sum(axis=-1))


def heard_sqnr(noise: OutputNoise) -> Array:
    """Return the SQNR of the outputs that are not zero everywhere; one that is not finite has the least there is."""
    return np.asarray(np.maximum(noise.sqnr_db()[noise.signal.sum(axis=0) > 0], -WORST_DB))


def noise_power(noise: OutputNoise) -> Array:
    """Return the noise of each output over all samples, that of one that is not finite as :func:`heard_sqnr` has it."""
    return np.asarray(np.minimum(noise.noise.sum(axis=0), noise.signal.sum(axis=0) * 10 ** (WORST_DB / 10)))


EFFICIENT = 0.5
"""Smallest part of the best gain for its cost with which a larger step is taken."""


@dataclass(frozen=True, slots=True)
class Step:
    """A state of the search.

    Attributes:
        units: The units that are in float.
        share: The share of the cost of all units that is spent on those in float and in the fallback format, 0 to 1.
        worst_db: SQNR of the worst output on the samples of the search, in dB; infinite where no output has noise.
        shortfall_db: The sum over outputs of what they lack of the goal, in dB; 0 where the goal is reached.
        fallback: The units that are in the fallback format.
    """

    units: tuple[Unit, ...]
    share: float
    worst_db: float
    shortfall_db: float
    fallback: tuple[Unit, ...] = ()

    @property
    def raised(self) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
        """The units in float and those in the fallback format: what tells states of one search apart."""
        return self.units, self.fallback


def best_step(state: Step, better: Sequence[Step]) -> Step:
    """Return the largest step of those that gain nearly as much for their cost as the best one."""

    def efficiency(each: Step) -> float:
        return (state.shortfall_db - each.shortfall_db) / (each.share - state.share)

    enough = EFFICIENT * max(map(efficiency, better))
    return min((each for each in better if efficiency(each) >= enough), key=lambda each: each.shortfall_db)
