"""Search the units that stay in float so that every output keeps a given SQNR, at the least cost.

Greedy: the noise that each unit makes alone is measured once. Noise powers at the outputs about add up, so the share of
a unit in their sum predicts what it takes away. (Measured on a detector: the differences that each unit makes among the
others predict far worse, since they also change how errors of other units round.) The few units with the best
prediction for their cost are then tried exactly, and the best of these is taken. Where the goal is reached, units that
are not needed any more are quantized again.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.sensitivity.effects import float_setting, only_setting
from qdqtool.sensitivity.masked_model import MaskedModel, Setting
from qdqtool.sensitivity.masked_runs import MaskedRuns
from qdqtool.sensitivity.noise_file import NoiseCache, alone_key, float_key
from qdqtool.sensitivity.output_noise import WORST_DB, OutputNoise
from qdqtool.sensitivity.units import Unit

TRIED = 4
"""How many units are tried at each step, alone and together."""

EFFICIENT = 0.5
"""Smallest part of the best gain for its cost with which a larger step is taken."""

LEAST_LEFT = 0.05
"""Smallest share of the noise that a unit is predicted to leave: a difference may promise to leave none."""

CURVE_STEP_DB, MOST_IN_FLOAT = 3.0, 0.5
"""A curve goes on in steps of so many dB, up to this share of the cost in float."""


@dataclass(frozen=True, slots=True)
class Step:
    """A state of the search.

    Attributes:
        units: The units that are in float.
        share: Their share of the cost of all units, 0 to 1.
        worst_db: SQNR of the worst output on the samples of the search, in dB; infinite where no output has noise.
        shortfall_db: The sum over outputs of what they lack of the goal, in dB; 0 where the goal is reached.
    """

    units: tuple[Unit, ...]
    share: float
    worst_db: float
    shortfall_db: float


@dataclass(slots=True, eq=False)
class FloatSearch:
    """A search on the samples of one session, which can go on with a higher goal.

    Attributes:
        units: The units of the plan.
        shares: The share of each unit in the cost of all.
        masked: The model with a switch at each pair.
        runs: Its session, and the samples.
        few: How many of the samples, from the first, measure the effect of each unit alone.
        limit: How many runs of a sample the search may take; the states that are compared at that moment are finished.
        steps: The states so far.
        cache: What was measured before, and is not measured again.
        spent: How many runs of a sample the search took, those included that the cache saved: with it or without, the
            search ends at the same state.
    """

    units: Sequence[Unit]
    shares: Sequence[float]
    masked: MaskedModel
    runs: MaskedRuns
    few: int
    limit: int
    steps: list[Step] = field(default_factory=list)
    cache: NoiseCache = field(default_factory=dict)
    spent: int = 0
    _asked: set[str] = field(default_factory=set)
    _tried: dict[frozenset[Unit], None] = field(default_factory=dict)
    _alone: dict[Unit, Array] = field(default_factory=dict)

    def reach(self, goal_db: float) -> Step:
        """Return the cheapest state that was found in which every output keeps ``goal_db``; else the best state.

        Args:
            goal_db: The SQNR that every output keeps.

        Raises:
            RunError: A node fails on a sample.
        """
        chosen = self.steps[-1].units if self.steps else ()
        state = self._state(chosen, goal_db)
        if not self.steps:
            self.steps.append(state)
        while state.shortfall_db > 0 and self.spent < self.limit:
            following = self._next(state, goal_db)
            if following is None:
                break
            state = following
            self.steps.append(state)
        return self._pruned(state, goal_db) if state.shortfall_db == 0 else state

    def go_on(self, goal_db: float) -> None:
        """Search for higher and higher goals, until half of the cost is in float or the limit of runs is reached.

        Args:
            goal_db: A goal that was reached.

        Raises:
            RunError: A node fails on a sample.
        """
        step = self.steps[-1] if self.steps else self.reach(goal_db)
        while self.spent < self.limit and len(step.units) < len(self.units) and np.isfinite(step.worst_db):
            goal_db = max(goal_db, step.worst_db) + CURVE_STEP_DB
            step = self.reach(goal_db)
            if step.shortfall_db > 0 or step.share > MOST_IN_FLOAT:
                return

    def noise(self, units: Iterable[Unit]) -> OutputNoise:
        """Return the noise of the outputs with some units in float."""
        kept = set(units)
        self._tried.setdefault(frozenset(kept))
        numbers = [number for number, unit in enumerate(self.units) if unit in kept]
        setting = float_setting([self.units[number] for number in numbers])
        return self._measured(float_key(numbers), setting, len(self.runs.samples))

    def _measured(self, key: str, setting: Setting, count: int) -> OutputNoise:
        found = self.cache.get(key)
        if key not in self._asked:
            self._asked.add(key)
            self.spent += count
        if found is None or found.samples < count:
            found = self.cache[key] = self.runs.noise(setting, range(count))
        return found.first(count)

    def frontier(self) -> tuple[Step, ...]:
        """Return the states that were run with a unit quantized and that no other one equals or beats in both respects.

        They are sorted: each costs more than the one in front, and keeps more.
        """
        states = [self._state(known, -math.inf) for known in self._tried if len(known) < len(self.units)]
        found: list[Step] = []
        for step in sorted(states, key=lambda each: (each.share, -each.worst_db)):
            if not found or step.worst_db > found[-1].worst_db:
                found.append(step)
        return tuple(found)

    def _state(self, units: Iterable[Unit], goal_db: float) -> Step:
        kept = set(units)
        sqnr = _heard(self.noise(kept))
        share = math.fsum(share for unit, share in zip(self.units, self.shares, strict=True) if unit in kept)
        ordered = tuple(unit for unit in self.units if unit in kept)
        return Step(ordered, share, float(sqnr.min(initial=np.inf)), _shortfall(sqnr, goal_db))

    def _next(self, state: Step, goal_db: float) -> Step | None:
        """Return the best of the states with more units in float; None where none is better."""
        costs = dict(zip(self.units, self.shares, strict=True))
        left = [unit for unit in self.units if unit not in state.units]
        gains = self._predicted_gains(state, left, goal_db)
        order = sorted(left, key=lambda unit: -gains[unit] / costs[unit])
        # Predictions may be wrong for the first ones; further on none is left to try.
        for start in range(0, len(order), TRIED):
            if start and self.spent >= self.limit:
                break
            batch = order[start : start + TRIED]
            sets = dict.fromkeys([(unit,) for unit in batch[: TRIED // 2]] + [tuple(batch[:2]), tuple(batch)])
            tried = [self._state((*state.units, *more), goal_db) for more in sets]
            better = [each for each in tried if each.shortfall_db < state.shortfall_db]
            if better:
                return _best(state, better)
        return None

    def _predicted_gains(self, state: Step, left: Sequence[Unit], goal_db: float) -> Mapping[Unit, float]:
        """Return by how much the shortfall is expected to fall with each of these units in float."""
        if not self._alone:
            for number, unit in enumerate(self.units):
                found = self._measured(alone_key(number), only_setting(unit, self.masked), self.few)
                self._alone[unit] = _power(found)
        current, whole = self.noise(state.units), np.sum([self._alone[unit] for unit in left], axis=0)
        noise, signal = _power(current), current.signal.sum(axis=0)
        gains = {}
        for unit in left:
            with np.errstate(divide="ignore", invalid="ignore"):
                fallen = np.minimum(np.nan_to_num(self._alone[unit] / whole, nan=0.0), 1 - LEAST_LEFT)
            gains[unit] = state.shortfall_db - _shortfall(_sqnr(signal, noise * (1 - fallen)), goal_db)
        return gains

    def _pruned(self, state: Step, goal_db: float) -> Step:
        """Quantize again what the goal does not need, the most costly first."""
        while (fewer := self._pruned_once(state, goal_db)) is not state:
            state = fewer
        if self.steps[-1].units != state.units:
            self.steps.append(state)
        return state

    def _pruned_once(self, state: Step, goal_db: float) -> Step:
        costs = dict(zip(self.units, self.shares, strict=True))
        for unit in sorted(state.units, key=lambda each: -costs[each]):
            if self.spent >= self.limit:
                break
            fewer = self._state([each for each in state.units if each is not unit], goal_db)
            if fewer.shortfall_db == 0:
                state = fewer
        return state


def _best(state: Step, better: Sequence[Step]) -> Step:
    """Return the largest step of those that gain nearly as much for their cost as the best one."""

    def efficiency(each: Step) -> float:
        return (state.shortfall_db - each.shortfall_db) / (each.share - state.share)

    enough = EFFICIENT * max(map(efficiency, better))
    return min((each for each in better if efficiency(each) >= enough), key=lambda each: each.shortfall_db)


def _shortfall(sqnr: Array, goal_db: float) -> float:
    return float(np.maximum(goal_db - sqnr, 0.0).sum())


def _heard(noise: OutputNoise) -> Array:
    """Return the SQNR of the outputs that are not zero everywhere; one that is not finite has the least there is."""
    return np.asarray(np.maximum(noise.sqnr_db()[noise.signal.sum(axis=0) > 0], -WORST_DB))


def _power(noise: OutputNoise) -> Array:
    """Return the noise of each output over all samples, that of one that is not finite as :func:`_heard` has it."""
    return np.asarray(np.minimum(noise.noise.sum(axis=0), noise.signal.sum(axis=0) * 10 ** (WORST_DB / 10)))


def _sqnr(signal: Array, noise: Array) -> Array:
    heard = signal > 0
    with np.errstate(divide="ignore"):
        return np.asarray(10 * np.log10(signal[heard] / noise[heard]))
