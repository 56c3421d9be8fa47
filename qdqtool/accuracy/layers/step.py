"""The states that a search comes by."""

from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool.accuracy.layers.units import Unit

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
