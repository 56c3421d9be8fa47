"""Predict the noise of the outputs when units change their level, from the noise that each unit makes alone.

Noise powers at the outputs about add up. In a state that was measured, the share of a unit in the sum of all powers is
its share in the noise. (Measured on a detector: the differences that each unit makes among the others predict far
worse, since they also change how errors of other units round.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.accuracy.layers.fallback import Levels
from qdqtool.accuracy.layers.output_noise import OutputNoise
from qdqtool.accuracy.layers.step import Move, noise_power, shortfall
from qdqtool.numerics.dtypes import Array

LEAST_LEFT = 0.05
"""Smallest share of the noise that moves are predicted to leave: a difference may promise to leave none."""

NEARLY_DB = 1.0
"""By how much an output may be expected to miss the goal where an exchange is worth a trial."""


@dataclass(frozen=True, slots=True, eq=False)
class Powers:
    """What is known of each unit at each level.

    Attributes:
        alone: Gives the power of the noise that a unit makes alone at a level, shape ``[outputs]``.
        cost: Gives what a unit costs at a level, as a share of the cost of all units in float.
    """

    alone: Callable[[Move], Array]
    cost: Callable[[Move], float]


class Prediction:
    """What moves do to the outputs in a state that was measured.

    Args:
        levels: The state.
        measured: The noise of the outputs in it.
        powers: What is known of each unit.
        goal_db: The SQNR that every output shall keep.
    """

    def __init__(self, levels: Levels, measured: OutputNoise, powers: Powers, goal_db: float) -> None:
        self._now = [Move(number, level) for number, level in enumerate(levels)]
        self._powers = powers
        self._goal_db = goal_db
        signal = measured.signal.sum(axis=0)
        self._heard = signal > 0
        self._signal, self._noise = signal[self._heard], noise_power(measured)[self._heard]
        whole = np.sum([self._alone(move) for move in self._now], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._factor = np.nan_to_num(self._noise / whole, nan=0.0, posinf=0.0)

    def efficiencies(self, moves: Sequence[Move]) -> Array:
        """Return by how much the shortfall is expected to fall with each move, in dB, for the cost of the move."""
        gains = self._shortfall(self._noise) - self._shortfall(self._less(self._noise, self._saved(moves)))
        return np.asarray(gains / self._prices(moves))

    def up(self, moves: Sequence[Move]) -> list[Move]:
        """Return moves that together are expected to reach the goal, one for a unit at most.

        They are chosen one after the other: each has the largest gain for its cost with those in front of it.

        Args:
            moves: Those to choose from; each raises a level.
        """
        saved, prices, noise = self._saved(moves), self._prices(moves), self._noise
        numbers = np.array([move.number for move in moves])
        chosen, free = list[Move](), np.ones(len(moves), dtype=bool)
        while free.any() and (lacking := self._shortfall(noise)) > 0:
            gains = np.where(free, (lacking - self._shortfall(self._less(noise, saved))) / prices, -np.inf)
            best = int(gains.argmax())
            if gains[best] <= 0:
                break
            chosen.append(moves[best])
            noise, free = self._less(noise, saved[best]), free & (numbers != numbers[best])
        return chosen

    def down(self, moves: Sequence[Move]) -> list[Move]:
        """Return moves with which together the goal is expected to be kept: those first that save most for their noise.

        Args:
            moves: Those to choose from; each lowers a level.
        """
        most, added = self._signal / 10 ** (self._goal_db / 10), -self._saved(moves)
        load = (added / most).max(axis=1, initial=0.0) / -self._prices(moves)
        chosen, noise = dict[int, Move](), self._noise
        for number in np.argsort(load, kind="stable"):
            move, more = moves[number], noise + added[number]
            if move.number not in chosen and (more <= most).all():
                chosen[move.number], noise = move, more
        return list(chosen.values())

    def exchanges(self, down: Sequence[Move], up: Sequence[Move]) -> list[tuple[Move, ...]]:
        """Return sets of one move that raises a level and one or two that lower one, which nearly keep the goal.

        Each set makes the state cheaper. The one that saves most stands first.

        Args:
            down: Those to choose from that lower a level.
            up: Those to choose from that raise one.
        """
        most = self._signal / 10 ** ((self._goal_db - NEARLY_DB) / 10)
        added, saved = -self._saved(down), self._saved(up)
        prices, costs = -self._prices(down), self._prices(up)
        pairs = [(one, two) for one in range(len(down)) for two in range(one + 1) if _go_together(down[one], down[two])]
        one, two = np.array(pairs).reshape(-1, 2).T
        both = added[one] + np.where((one == two)[:, None], 0.0, added[two])
        cheaper = prices[one] + np.where(one == two, 0.0, prices[two])
        found: list[tuple[float, tuple[Move, ...]]] = []
        for number, move in enumerate(up):
            good = (self._less(self._noise, saved[number]) + both <= most).all(axis=1) & (cheaper > costs[number])
            for at in np.flatnonzero(good):
                lowered = dict.fromkeys((down[one[at]], down[two[at]]))
                found.append((float(costs[number] - cheaper[at]), (move, *lowered)))
        return [moves for _, moves in sorted(found, key=lambda each: each[0])]

    def _alone(self, move: Move) -> Array:
        return np.asarray(self._powers.alone(move)[self._heard])

    def _saved(self, moves: Sequence[Move]) -> Array:
        """Return the noise that each move is expected to take away, shape ``[moves, outputs]``."""
        saved = [self._alone(self._now[move.number]) - self._alone(move) for move in moves]
        return np.asarray(np.array(saved).reshape(len(moves), len(self._noise)) * self._factor)

    def _prices(self, moves: Sequence[Move]) -> Array:
        cost = self._powers.cost
        return np.array([cost(move) - cost(self._now[move.number]) for move in moves])

    def _less(self, noise: Array, saved: Array) -> Array:
        return np.asarray(np.maximum(noise - saved, LEAST_LEFT * self._noise))

    def _shortfall(self, noise: Array) -> Array:
        """Return the sum over outputs of what they lack of the goal, in dB, shape ``[...]`` of ``[..., outputs]``."""
        with np.errstate(divide="ignore"):
            return shortfall(10 * np.log10(self._signal / noise), self._goal_db)


def _go_together(one: Move, two: Move) -> bool:
    return one == two or one.number != two.number
