"""Search for the layers to take out of the plan's format so that every output keeps a given SQNR, at the least cost.

Such a layer gets float, or the fallback format if it can have it.

The noise that each layer makes alone is measured once, and predicts the noise of any set of layers
(:mod:`.prediction`). Far from the goal, the search tries the cheapest set of layers that is predicted to reach the
goal. Near the goal, or if that set gives no better state, it tries the few layers with the best prediction for their
cost, alone and together, and takes the best. When the goal is reached, unnecessary layers get a cheaper level again:
first all that are predicted to be unnecessary, then one after the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.accuracy.layers import prediction
from qdqtool.accuracy.layers.fallback import NO_FALLBACK, Fallback, Level, Levels
from qdqtool.accuracy.layers.layer import Layer
from qdqtool.accuracy.layers.masked_model import Setting
from qdqtool.accuracy.layers.masked_runs import MaskedRuns, float_setting, only_setting
from qdqtool.accuracy.layers.noise_file import NoiseCache, alone_key, float_key
from qdqtool.accuracy.layers.prediction import Move, Prediction, SearchState, moved
from qdqtool.models.plan import Placement
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.noise import Noise

TRIED = 4
"""Number of layers that are tried at each step, alone and together."""

CURVE_STEP_DB, MOST_IN_FLOAT = 3.0, 0.5
"""Step of a curve in dB, and the share of the cost in float at which a curve ends."""

LEAST_LEAP_DB, MOST_LEAP_DB = 3.5, 15.0
"""Many layers change at once if the worst output misses the goal by more than the first and less than the second number
of dB. Predictions hold for a few dB only. Small steps find the cheapest layers, and give a curve its points."""


@dataclass(slots=True, eq=False)
class FloatSearch:
    """A search on the samples of one session, which can go on with a higher goal.

    Attributes:
        layers: The layers of the plan.
        shares: The share of each layer in the cost of all layers.
        runs: The session of the model with a switch at each pair, and the samples.
        few: Number of first samples on which the effect of each layer alone is measured.
        limit: Largest number of runs of a sample; a comparison of states that has begun is finished.
        steps: The states so far.
        cache: Earlier measurements, which are not repeated.
        spent: Number of runs of a sample so far. Runs that the cache saved are counted too, so that the search ends at
            the same state with or without the cache.
        fallback: The format between the plan's format and float.
    """

    layers: Sequence[Layer]
    shares: Sequence[float]
    runs: MaskedRuns
    few: int
    limit: int
    steps: list[SearchState] = field(default_factory=list)
    cache: NoiseCache = field(default_factory=dict)
    spent: int = 0
    fallback: Fallback = NO_FALLBACK
    _asked: set[str] = field(default_factory=set)
    _tried: dict[Levels, None] = field(default_factory=dict)
    _alone: dict[Move, Array] = field(default_factory=dict)

    def reach(self, goal_db: float) -> SearchState:
        """Return the cheapest state found in which every output keeps ``goal_db``; if there is none, the best state."""
        chosen = self._levels(self.steps[-1]) if self.steps else (Level.QUANTIZED,) * len(self.layers)
        state = self._state(chosen, goal_db)
        if not self.steps:
            self.steps.append(state)
        was_far = goal_db - state.worst_db > LEAST_LEAP_DB
        while state.shortfall_db > 0 and self.spent < self.limit:
            following = self._next(state, goal_db)
            if following is None:
                break
            state = following
            self.steps.append(state)
        if state.shortfall_db > 0:
            return state
        found = self._refined(state, goal_db) if was_far else self._pruned(state, goal_db)
        if self._levels(self.steps[-1]) != self._levels(found):
            self.steps.append(found)
        return found

    def go_on(self, goal_db: float) -> None:
        """Search for higher and higher goals, until half of the cost is spent or the limit of runs is reached."""
        step = self.steps[-1] if self.steps else self.reach(goal_db)
        while self.spent < self.limit and len(step.layers) < len(self.layers) and np.isfinite(step.worst_db):
            goal_db = max(goal_db, step.worst_db) + CURVE_STEP_DB
            step = self.reach(goal_db)
            if step.shortfall_db > 0 or step.share > MOST_IN_FLOAT:
                return

    def frontier(self) -> tuple[SearchState, ...]:
        """Return the states that no other state equals or beats in both cost and SQNR. The float model is left out.

        They are sorted: each state has a higher cost and a higher SQNR than the one before.
        """
        states = [self._state(known, -math.inf) for known in self._tried if set(known) != {Level.FLOAT}]
        found: list[SearchState] = []
        for step in sorted(states, key=lambda each: (each.share, -each.worst_db)):
            if not found or step.worst_db > found[-1].worst_db:
                found.append(step)
        return tuple(found)

    def setting(self, step: SearchState) -> Setting:
        """Return the setting of the masked model in a state."""
        return self._setting(self._levels(step))

    def _setting(self, levels: Levels) -> Setting:
        setting: dict[int, Placement | None] = dict(float_setting(self._at(levels, Level.FLOAT)))
        for layer in self._at(levels, Level.FALLBACK):
            setting.update(self.fallback.setting(layer))
        return setting

    def _noise(self, levels: Levels) -> Noise:
        self._tried.setdefault(levels)
        left, secondary = (
            [at for at, each in enumerate(levels) if each is level] for level in (Level.FLOAT, Level.FALLBACK)
        )
        return self._measured(
            float_key(left, self.fallback.key, secondary), self._setting(levels), len(self.runs.samples)
        )

    def _measured(self, key: str, setting: Setting, count: int) -> Noise:
        found = self.cache.get(key)
        if key not in self._asked:
            self._asked.add(key)
            self.spent += count
        if found is None or found.samples < count:
            found = self.cache[key] = self.runs.noise(setting, range(count))
        return found.first(count)

    def _levels(self, step: SearchState) -> Levels:
        left, secondary = set(step.layers), set(step.fallback)
        return tuple(
            Level.FLOAT if layer in left else Level.FALLBACK if layer in secondary else Level.QUANTIZED
            for layer in self.layers
        )

    def _at(self, levels: Levels, level: Level) -> tuple[Layer, ...]:
        return tuple(layer for layer, each in zip(self.layers, levels, strict=True) if each is level)

    def _state(self, levels: Levels, goal_db: float) -> SearchState:
        sqnr = prediction.sqnr_of_active_outputs(self._noise(levels))
        return SearchState(
            layers=self._at(levels, Level.FLOAT),
            share=math.fsum(self._cost(number, level) for number, level in enumerate(levels)),
            worst_db=float(sqnr.min(initial=np.inf)),
            shortfall_db=float(prediction.shortfall(sqnr, goal_db)),
            fallback=self._at(levels, Level.FALLBACK),
        )

    def _cost(self, number: int, level: Level) -> float:
        """Return the cost of a layer at a level, as a share of the cost of all layers in float."""
        if level is Level.FALLBACK:
            return self.fallback.shares[self.layers[number]]
        return self.shares[number] if level is Level.FLOAT else 0.0

    def _takes(self, number: int, level: Level) -> bool:
        return level is not Level.FALLBACK or self.layers[number] in self.fallback.shares

    def _moves(self, levels: Levels) -> list[Move]:
        """Return the moves that raise the level of a single layer."""
        return [
            Move(number, level)
            for number, now in enumerate(levels)
            for level in Level
            if level > now and self._takes(number, level)
        ]

    def _next(self, state: SearchState, goal_db: float) -> SearchState | None:
        """Return a better state with a higher level for some layers, or None if no state is better."""
        # Far from the goal, a set of layers that is predicted to reach it is tried first. If that is no better, or near
        # the goal, few layers are tried at a time.
        levels = self._levels(state)
        moves, lacking_db = self._moves(levels), goal_db - state.worst_db
        is_far = LEAST_LEAP_DB < lacking_db < MOST_LEAP_DB
        together = self._prediction(levels, goal_db).up(moves) if is_far else []
        if together:
            tried = self._state(moved(levels, together), goal_db)
            if tried.shortfall_db < state.shortfall_db:
                return tried
        for number, sets in enumerate(prediction.sets_to_try(self._ordered(moves, state, goal_db), TRIED)):
            if number and self.spent >= self.limit:
                break
            several = [self._state(moved(levels, each), goal_db) for each in sets]
            better = [each for each in several if each.shortfall_db < state.shortfall_db]
            if better:
                return prediction.best_step(state, better)
        return None

    def _prediction(self, levels: Levels, goal_db: float) -> Prediction:
        powers = prediction.Powers(self._alone_power, lambda move: self._cost(move.number, move.level))
        return Prediction(levels, self._noise(levels), powers, goal_db)

    def _ordered(self, moves: Sequence[Move], state: SearchState, goal_db: float) -> list[Move]:
        """Sort the moves by the ratio of predicted gain to cost: first the best move of each layer, then all others."""
        efficiencies = self._prediction(self._levels(state), goal_db).efficiencies(moves)
        order = [moves[number] for number in np.argsort(-efficiencies, kind="stable")]
        firsts = {move.number: move for move in reversed(order)}
        return [move for move in order if firsts[move.number] is move] + [
            move for move in order if firsts[move.number] is not move
        ]

    def _alone_power(self, move: Move) -> Array:
        """Return the noise that a layer alone makes at a level, for each output."""
        if move not in self._alone:
            self._alone[move] = self._measured_alone(move)
        return self._alone[move]

    def _measured_alone(self, move: Move) -> Array:
        if move.level is Level.FLOAT:
            return np.zeros_like(self._alone_power(Move(move.number, Level.QUANTIZED)))
        setting, key = dict(only_setting([self.layers[move.number]], self.runs.switches)), alone_key(move.number)
        if move.level is Level.FALLBACK:
            setting.update(self.fallback.setting(self.layers[move.number]))
            key = alone_key(move.number, self.fallback.key)
        return prediction.noise_power(self._measured(key, setting, self.few))

    def _refined(self, state: SearchState, goal_db: float) -> SearchState:
        """Return a cheaper state that still keeps the goal, after many layers were changed at once."""
        while (fewer := self._lowered(state, goal_db)) is not None:
            state = fewer
        state = self._pruned(state, goal_db)
        while (cheaper := self._exchanged(state, goal_db)) is not state:
            state = self._pruned(cheaper, goal_db)
        return state

    def _pruned(self, state: SearchState, goal_db: float) -> SearchState:
        """Lower the levels of single layers, the most costly first, as long as the goal is kept."""
        while (fewer := self._pruned_once(state, goal_db)) is not state:
            state = fewer
        return state

    def _lowered(self, state: SearchState, goal_db: float) -> SearchState | None:
        """Return a state that keeps the goal with several layers at lower levels, or None if none is found."""
        levels = self._levels(state)
        moves = self._moves_down(levels)
        together = self._prediction(levels, goal_db).down(moves) if moves else []
        while together and self.spent < self.limit:
            fewer = self._state(moved(levels, together), goal_db)
            if fewer.shortfall_db == 0:
                return fewer
            together = together[: len(together) // 2]
        return None

    def _exchanged(self, state: SearchState, goal_db: float) -> SearchState:
        """Return a cheaper state in which one layer replaces one or two others, or the same state if none is found."""
        levels = self._levels(state)
        down = self._moves_down(levels)
        sets = self._prediction(levels, goal_db).exchanges(down, self._moves(levels)) if down else []
        for moves in sets[:TRIED]:
            if self.spent >= self.limit:
                break
            cheaper = self._state(moved(levels, moves), goal_db)
            if cheaper.shortfall_db == 0:
                return cheaper
        return state

    def _moves_down(self, levels: Levels) -> list[Move]:
        """Return the moves that lower the level of a single layer, the most costly first."""
        # First from float to the fallback: that saves most of the cost, so that other layers may keep their level.
        return [
            Move(number, lower)
            for lower in (Level.FALLBACK, Level.QUANTIZED)
            for number in sorted(range(len(levels)), key=lambda number: -self._cost(number, levels[number]))
            if lower < levels[number] and self._takes(number, lower)
        ]

    def _pruned_once(self, state: SearchState, goal_db: float) -> SearchState:
        levels = self._levels(state)
        for move in self._moves_down(levels):
            if self.spent >= self.limit:
                break
            now = self._levels(state)
            if move.level >= now[move.number]:
                continue
            fewer = self._state(moved(now, [move]), goal_db)
            if fewer.shortfall_db == 0:
                state = fewer
        return state
