"""Search the units that leave the format of a plan so that every output keeps a given SQNR, at the least cost.

A unit that leaves it goes to float, or to the fallback format where it takes one.

Greedy: the noise that each unit makes alone is measured once. Noise powers at the outputs about add up, so the share of
a unit in their sum predicts what it takes away. (Measured on a detector: the differences that each unit makes among the
others predict far worse, since they also change how errors of other units round.) The few units with the best
prediction for their cost are then tried exactly, and the best of these is taken. Where the goal is reached, units that
are not needed any more get a cheaper level again.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.numerics.dtypes import Array
from qdqtool.plan import Placement
from qdqtool.sensitivity.effects import float_setting, only_setting
from qdqtool.sensitivity.fallback import Fallback, Level, Levels
from qdqtool.sensitivity.masked_model import MaskedModel, Setting
from qdqtool.sensitivity.masked_runs import MaskedRuns
from qdqtool.sensitivity.moves import Move, moved, sets_to_try
from qdqtool.sensitivity.noise_file import NoiseCache, alone_key, float_key
from qdqtool.sensitivity.output_noise import OutputNoise
from qdqtool.sensitivity.shortfall import heard_sqnr, noise_power, shortfall, sqnr_of
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
        fallback: The format between that of the plan and float; None where there is none.
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
    fallback: Fallback | None = None
    _asked: set[str] = field(default_factory=set)
    _tried: dict[Levels, None] = field(default_factory=dict)
    _alone: dict[Move, Array] = field(default_factory=dict)

    def reach(self, goal_db: float) -> Step:
        """Return the cheapest state that was found in which every output keeps ``goal_db``; else the best state.

        Args:
            goal_db: The SQNR that every output keeps.

        Raises:
            RunError: A node fails on a sample.
        """
        chosen = self._levels(self.steps[-1]) if self.steps else (Level.QUANTIZED,) * len(self.units)
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
        """Search for higher and higher goals, until half of the cost is spent or the limit of runs is reached.

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

    def frontier(self) -> tuple[Step, ...]:
        """Return the states that were run with a unit quantized and that no other one equals or beats in both respects.

        They are sorted: each costs more than the one in front, and keeps more.
        """
        states = [self._state(known, -math.inf) for known in self._tried if set(known) != {Level.FLOAT}]
        found: list[Step] = []
        for step in sorted(states, key=lambda each: (each.share, -each.worst_db)):
            if not found or step.worst_db > found[-1].worst_db:
                found.append(step)
        return tuple(found)

    def setting(self, step: Step) -> Setting:
        """Return the setting of the masked model in a state."""
        return self._setting(self._levels(step))

    def _setting(self, levels: Levels) -> Setting:
        left, finer = (self._numbers(levels, level) for level in (Level.FLOAT, Level.FALLBACK))
        setting: dict[int, Placement | None] = dict(float_setting([self.units[number] for number in left]))
        for number in finer:
            setting.update(self._finer(number))
        return setting

    def _noise(self, levels: Levels) -> OutputNoise:
        self._tried.setdefault(levels)
        left, finer = (self._numbers(levels, level) for level in (Level.FLOAT, Level.FALLBACK))
        setting = self._setting(levels)
        key = float_key(left, self.fallback.key if self.fallback is not None else "", finer)
        return self._measured(key, setting, len(self.runs.samples))

    def _measured(self, key: str, setting: Setting, count: int) -> OutputNoise:
        found = self.cache.get(key)
        if key not in self._asked:
            self._asked.add(key)
            self.spent += count
        if found is None or found.samples < count:
            found = self.cache[key] = self.runs.noise(setting, range(count))
        return found.first(count)

    def _levels(self, step: Step) -> Levels:
        left, finer = set(step.units), set(step.fallback)
        return tuple(
            Level.FLOAT if unit in left else Level.FALLBACK if unit in finer else Level.QUANTIZED for unit in self.units
        )

    def _numbers(self, levels: Levels, level: Level) -> list[int]:
        return [number for number, each in enumerate(levels) if each is level]

    def _finer(self, number: int) -> dict[int, Placement]:
        """Return the pairs of a unit in the fallback format."""
        assert self.fallback is not None
        return self.fallback.setting(self.units[number])

    def _state(self, levels: Levels, goal_db: float) -> Step:
        sqnr = heard_sqnr(self._noise(levels))
        share = math.fsum(self._cost(number, level) for number, level in enumerate(levels))
        left, finer = (self._numbers(levels, level) for level in (Level.FLOAT, Level.FALLBACK))
        return Step(
            units=tuple(self.units[number] for number in left),
            share=share,
            worst_db=float(sqnr.min(initial=np.inf)),
            shortfall_db=shortfall(sqnr, goal_db),
            fallback=tuple(self.units[number] for number in finer),
        )

    def _cost(self, number: int, level: Level) -> float:
        """Return what a unit costs at a level, as a share of the cost of all units in float."""
        if level is Level.FALLBACK:
            assert self.fallback is not None
            return self.fallback.shares[self.units[number]]
        return self.shares[number] if level is Level.FLOAT else 0.0

    def _takes(self, number: int, level: Level) -> bool:
        """Return whether there is such a level for a unit."""
        return level is not Level.FALLBACK or (self.fallback is not None and self.units[number] in self.fallback.shares)

    def _moves(self, levels: Levels) -> list[Move]:
        """Return what raises the level of a single unit."""
        return [
            Move(number, level)
            for number, now in enumerate(levels)
            for level in Level
            if level > now and self._takes(number, level)
        ]

    def _next(self, state: Step, goal_db: float) -> Step | None:
        """Return the best of the states with a higher level for some units; None where none is better."""
        levels = self._levels(state)
        order = self._ordered(self._moves(levels), state, goal_db)
        for number, sets in enumerate(sets_to_try(order, TRIED)):
            if number and self.spent >= self.limit:
                break
            tried = [self._state(moved(levels, moves), goal_db) for moves in sets]
            better = [each for each in tried if each.shortfall_db < state.shortfall_db]
            if better:
                return _best(state, better)
        return None

    def _ordered(self, moves: Sequence[Move], state: Step, goal_db: float) -> list[Move]:
        """Return the moves with the best predicted gain for their cost first: one for each unit, then the others."""
        levels = self._levels(state)
        gains = dict(zip(moves, self._predicted_gains(moves, state, goal_db), strict=True))

        def efficiency(move: Move) -> float:
            return gains[move] / (self._cost(move.number, move.level) - self._cost(move.number, levels[move.number]))

        order = sorted(moves, key=lambda move: -efficiency(move))
        firsts = {move.number: move for move in reversed(order)}
        return [move for move in order if firsts[move.number] is move] + [
            move for move in order if firsts[move.number] is not move
        ]

    def _predicted_gains(self, moves: Sequence[Move], state: Step, goal_db: float) -> list[float]:
        """Return by how much the shortfall is expected to fall with each of these moves."""
        levels = self._levels(state)
        now = [self._alone_power(Move(number, level)) for number, level in enumerate(levels)]
        current, whole = self._noise(levels), np.sum(now, axis=0)
        noise, signal = noise_power(current), current.signal.sum(axis=0)
        gains = []
        for move in moves:
            saved = now[move.number] - self._alone_power(move)
            with np.errstate(divide="ignore", invalid="ignore"):
                fallen = np.minimum(np.nan_to_num(saved / whole, nan=0.0), 1 - LEAST_LEFT)
            gains.append(state.shortfall_db - shortfall(sqnr_of(signal, noise * (1 - fallen)), goal_db))
        return gains

    def _alone_power(self, move: Move) -> Array:
        """Return the noise that a unit makes alone at a level, by output."""
        if move not in self._alone:
            self._alone[move] = self._measured_alone(move)
        return self._alone[move]

    def _measured_alone(self, move: Move) -> Array:
        if move.level is Level.FLOAT:
            return np.zeros_like(self._alone_power(Move(move.number, Level.QUANTIZED)))
        setting, key = dict(only_setting(self.units[move.number], self.masked)), alone_key(move.number)
        if move.level is Level.FALLBACK:
            assert self.fallback is not None
            setting.update(self._finer(move.number))
            key = alone_key(move.number, self.fallback.key)
        return noise_power(self._measured(key, setting, self.few))

    def _pruned(self, state: Step, goal_db: float) -> Step:
        """Give units the cheapest level with which the goal is still kept, the most costly first."""
        while (fewer := self._pruned_once(state, goal_db)) is not state:
            state = fewer
        if self._levels(self.steps[-1]) != self._levels(state):
            self.steps.append(state)
        return state

    def _pruned_once(self, state: Step, goal_db: float) -> Step:
        levels = self._levels(state)
        # First from float to the fallback: that saves most of the cost, and leaves room for more of it elsewhere.
        moves = [
            Move(number, lower)
            for lower in (Level.FALLBACK, Level.QUANTIZED)
            for number in sorted(range(len(levels)), key=lambda number: -self._cost(number, levels[number]))
            if lower < levels[number] and self._takes(number, lower)
        ]
        for move in moves:
            if self.spent >= self.limit:
                break
            now = self._levels(state)
            if move.level >= now[move.number]:
                continue
            fewer = self._state(moved(now, [move]), goal_db)
            if fewer.shortfall_db == 0:
                state = fewer
        return state


def _best(state: Step, better: Sequence[Step]) -> Step:
    """Return the largest step of those that gain nearly as much for their cost as the best one."""

    def efficiency(each: Step) -> float:
        return (state.shortfall_db - each.shortfall_db) / (each.share - state.share)

    enough = EFFICIENT * max(map(efficiency, better))
    return min((each for each in better if efficiency(each) >= enough), key=lambda each: each.shortfall_db)
