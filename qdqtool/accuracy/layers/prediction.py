"""The states of a search, and predictions of their noise from the noise that each layer makes alone.

Noise powers at the outputs approximately add up. So the noise of a measured state is divided among the layers in
proportion to the noise that each layer makes alone. (On a detector, the noise that disappears with one layer in float
predicted worse, because a layer also changes how errors of other layers round.)
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.accuracy.layers.fallback import Level, Levels
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import WORST_DB, Noise, decibels


@dataclass(frozen=True, slots=True)
class Move:
    """A layer, by number, and its new level."""

    number: int
    level: Level


def moved(levels: Levels, moves: Sequence[Move]) -> Levels:
    """Return the levels after some moves; a layer with several moves gets the highest level."""
    wanted: dict[int, Level] = {}
    for move in moves:
        wanted[move.number] = max(move.level, wanted.get(move.number, move.level))
    return tuple(wanted.get(number, level) for number, level in enumerate(levels))


def sets_to_try(order: Sequence[Move], count: int) -> Iterator[list[tuple[Move, ...]]]:
    """Yield lists of sets of moves to try, the best predictions first, until the caller finds a better state.

    Predictions may be wrong. If no small set is better, because errors of layers partly cancel out, larger and larger
    sets follow. The last set has all moves, and gives the float model.

    Args:
        order: The moves, best prediction first.
        count: Number of moves that are tried at a time, alone and together.
    """
    for start in range(0, len(order), count):
        batch = order[start : start + count]
        yield list(dict.fromkeys([(move,) for move in batch[: count // 2]] + [tuple(batch[:2]), tuple(batch)]))
    larger = 2 * count
    while larger // 2 < len(order):
        yield [tuple(order[:larger])]
        larger *= 2


def shortfall(sqnr: Array, goal_db: float) -> Array:
    """Return the sum over outputs (the last axis) of the dB by which each output misses the goal."""
    return np.asarray(np.maximum(goal_db - sqnr, 0.0).sum(axis=-1))


def sqnr_of_active_outputs(noise: Noise) -> Array:
    """Return the SQNR of the outputs that are not zero everywhere; a value that is not finite becomes -300 dB."""
    return np.asarray(np.maximum(noise.sqnr_db()[noise.active], -WORST_DB))


def noise_power(noise: Noise) -> Array:
    """Return the noise of each output over all samples, limited as in :func:`sqnr_of_active_outputs`."""
    return np.asarray(np.minimum(noise.noise.sum(axis=0), noise.signal.sum(axis=0) * 10 ** (WORST_DB / 10)))


StateKey = tuple[tuple[Layer, ...], tuple[Layer, ...]]
"""The layers in float and the layers in the fallback format: they identify a state of a search."""

ALL_QUANTIZED: StateKey = ((), ())

EFFICIENT = 0.5
"""A larger step is preferred if its ratio of gain to cost is at least this part of the best ratio."""


@dataclass(frozen=True, slots=True)
class SearchState:
    """A state of the search.

    Attributes:
        layers: The layers that are in float.
        share: The cost of the layers in float and in the fallback format, as a share of the cost of all layers, 0 to 1.
        worst_db: SQNR of the worst output on the samples of the search, in dB; infinite if no output has noise.
        shortfall_db: The dB by which the outputs miss the goal, summed over outputs; 0 if the goal is reached.
        fallback: The layers that are in the fallback format.
    """

    layers: tuple[Layer, ...]
    share: float
    worst_db: float
    shortfall_db: float
    fallback: tuple[Layer, ...] = ()

    @property
    def key(self) -> StateKey:
        """The key that identifies the state in its search."""
        return self.layers, self.fallback


def best_step(state: SearchState, better: Sequence[SearchState]) -> SearchState:
    """Return the step with the largest gain among those whose ratio of gain to cost is near the best ratio."""

    def efficiency(each: SearchState) -> float:
        return (state.shortfall_db - each.shortfall_db) / (each.share - state.share)

    enough = EFFICIENT * max(map(efficiency, better))
    return min((each for each in better if efficiency(each) >= enough), key=lambda each: each.shortfall_db)


LEAST_LEFT = 0.05
"""The noise predicted after moves is at least this share of the present noise, because predicted differences may add up
to all of it."""

NEARLY_DB = 1.0
"""An exchange is tried if each output is predicted to miss the goal by at most this number of dB."""


@dataclass(frozen=True, slots=True, eq=False)
class Powers:
    """The noise and the cost of each layer at each level.

    Attributes:
        alone: Returns the power of the noise that a layer alone makes at a level, shape ``[outputs]``.
        cost: Returns the cost of a layer at a level, as a share of the cost of all layers in float.
    """

    alone: Callable[[Move], Array]
    cost: Callable[[Move], float]


class Prediction:
    """The predicted effect of moves on the outputs, from a measured state."""

    def __init__(self, levels: Levels, measured: Noise, powers: Powers, goal_db: float) -> None:
        self._now = [Move(number, level) for number, level in enumerate(levels)]
        self._powers = powers
        self._goal_db = goal_db
        self._active = measured.active
        self._signal = measured.signal.sum(axis=0)[self._active]
        self._noise = noise_power(measured)[self._active]
        whole = np.sum([self._alone(move) for move in self._now], axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            self._factor = np.nan_to_num(self._noise / whole, nan=0.0, posinf=0.0)

    def efficiencies(self, moves: Sequence[Move]) -> Array:
        """Return the predicted decrease of the shortfall by each move, in dB, divided by the cost of the move."""
        gains = self._shortfall(self._noise) - self._shortfall(self._less(self._noise, self._saved(moves)))
        return np.asarray(gains / self._prices(moves))

    def up(self, moves: Sequence[Move]) -> list[Move]:
        """Return moves that together are predicted to reach the goal, at most one for each layer.

        They are chosen one after the other: each has the largest ratio of gain to cost after the earlier ones.
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
        """Return moves to lower levels that should keep the goal, by the ratio of saved cost to added noise."""
        most, added = self._signal / 10 ** (self._goal_db / 10), -self._saved(moves)
        load = (added / most).max(axis=1, initial=0.0) / -self._prices(moves)
        chosen, noise = dict[int, Move](), self._noise
        for number in np.argsort(load, kind="stable"):
            move, more = moves[number], noise + added[number]
            if move.number not in chosen and (more <= most).all():
                chosen[move.number], noise = move, more
        return list(chosen.values())

    def exchanges(self, down: Sequence[Move], up: Sequence[Move]) -> list[tuple[Move, ...]]:
        """Return sets of moves that nearly keep the goal: one move raises a level, and one or two lower a level.

        Each set makes the state cheaper. The set that saves most is first.
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
        return np.asarray(self._powers.alone(move)[self._active])

    def _saved(self, moves: Sequence[Move]) -> Array:
        """Return the noise that each move is predicted to remove, shape ``[moves, outputs]``."""
        saved = [self._alone(self._now[move.number]) - self._alone(move) for move in moves]
        return np.asarray(np.array(saved).reshape(len(moves), len(self._noise)) * self._factor)

    def _prices(self, moves: Sequence[Move]) -> Array:
        cost = self._powers.cost
        return np.array([cost(move) - cost(self._now[move.number]) for move in moves])

    def _less(self, noise: Array, saved: Array) -> Array:
        return np.asarray(np.maximum(noise - saved, LEAST_LEFT * self._noise))

    def _shortfall(self, noise: Array) -> Array:
        """Return the shortfall in dB, summed over outputs: shape ``[...]`` for ``[..., outputs]``."""
        return shortfall(decibels(self._signal, noise), self._goal_db)


def _go_together(one: Move, two: Move) -> bool:
    return one == two or one.number != two.number
