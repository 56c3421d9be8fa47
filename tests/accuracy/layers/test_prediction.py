"""Predictions against sums in plain Python: noise powers add up in the measured proportion; moves, and shortfalls."""

import math
from itertools import combinations

import numpy as np
import pytest

from qdqtool.accuracy.layers.fallback import Level
from qdqtool.accuracy.layers.prediction import (
    LEAST_LEFT,
    NEARLY_DB,
    Move,
    Powers,
    Prediction,
    moved,
    noise_power,
    sets_to_try,
    shortfall,
    sqnr_of_active_outputs,
)
from qdqtool.numerics.noise import WORST_DB, Noise

LAYERS, OUTPUTS, GOAL_DB = 7, 3, 25.0
FACTOR = (0.5, 1.0, 3.0)
"""The noise of the state in that of the sum of what its layers make alone, by output."""


class Known:
    """Layers with random noise and costs; the noise in a state is the sum of theirs, times the factor of the output."""

    def __init__(self, seed: int, quantized: int = LAYERS, loudness: float = 1.0) -> None:
        random = np.random.default_rng(seed)
        self.alone = loudness * random.lognormal(-3, 1.5, (LAYERS, OUTPUTS))
        self.costs = random.uniform(0.5, 2, LAYERS)
        self.levels = tuple(Level.QUANTIZED if number < quantized else Level.FLOAT for number in range(LAYERS))
        signal = np.full((2, OUTPUTS), 40.0)
        half = np.array(self.noise(self.levels)) / 2
        powers = Powers(self._power, lambda move: self.costs[move.number] * (move.level is Level.FLOAT))
        self.prediction = Prediction(self.levels, Noise(signal, np.array([half, half])), powers, GOAL_DB)

    def _power(self, move: Move):
        return self.alone[move.number] * (move.level is Level.QUANTIZED)

    def noise(self, levels) -> list[float]:
        made = [
            math.fsum(self.alone[number, output] for number in range(LAYERS) if levels[number] is Level.QUANTIZED)
            for output in range(OUTPUTS)
        ]
        return [part * each for part, each in zip(FACTOR, made, strict=True)]

    def shortfall(self, moves) -> float:
        least = [LEAST_LEFT * each for each in self.noise(self.levels)]
        noises = map(max, self.noise(self.after(moves)), least)
        return math.fsum(max(GOAL_DB - 10 * math.log10(80.0 / noise), 0.0) for noise in noises)

    def after(self, moves):
        wanted = {move.number: move.level for move in moves}
        return [wanted.get(number, level) for number, level in enumerate(self.levels)]

    def price(self, moves) -> float:
        return math.fsum(self.costs[move.number] * (1 if move.level is Level.FLOAT else -1) for move in moves)

    def moves(self, level: Level) -> list[Move]:
        return [Move(number, level) for number, now in enumerate(self.levels) if now is not level]


@pytest.mark.parametrize("seed", range(5))
def test_the_efficiency_of_a_move_is_its_gain_for_its_cost(seed: int):
    known = Known(seed)
    moves = known.moves(Level.FLOAT)
    expected = [(known.shortfall([]) - known.shortfall([move])) / known.price([move]) for move in moves]
    assert known.prediction.efficiencies(moves) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_what_goes_up_reaches_the_goal_at_a_cost_near_the_least(seed: int):
    known = Known(seed)
    moves = known.moves(Level.FLOAT)
    subsets = [each for count in range(LAYERS + 1) for each in combinations(moves, count)]
    enough = [known.price(each) for each in subsets if known.shortfall(each) == 0]
    found = known.prediction.up(moves)
    assert len({move.number for move in found}) == len(found)
    if not enough:
        assert known.shortfall(found) == pytest.approx(min(map(known.shortfall, subsets)))
        return
    assert known.shortfall(found) == 0
    assert min(enough) * (1 - 1e-9) <= known.price(found) <= 1.6 * min(enough)


@pytest.mark.parametrize("seed", range(20))
def test_what_goes_down_keeps_the_goal_and_no_other_unit_could_go_with_it(seed: int):
    known = Known(seed, quantized=1, loudness=0.4)
    moves = known.moves(Level.QUANTIZED)
    limit = 80.0 / 10 ** (GOAL_DB / 10)
    found = known.prediction.down(moves)
    assert not found or max(known.noise(known.after(found))) <= limit
    for move in moves:
        assert move in found or max(known.noise(known.after([*found, move]))) > limit


def test_something_goes_down_in_most_states():
    states = [Known(seed, quantized=1, loudness=0.4) for seed in range(20)]
    assert sum(bool(known.prediction.down(known.moves(Level.QUANTIZED))) for known in states) > 10


@pytest.mark.parametrize("seed", range(20))
def test_an_exchange_is_cheaper_and_nearly_keeps_the_goal(seed: int):
    known = Known(seed, quantized=4)
    up, down = known.moves(Level.FLOAT), known.moves(Level.QUANTIZED)
    limit = 80.0 / 10 ** ((GOAL_DB - NEARLY_DB) / 10)

    def is_good(moves) -> bool:
        least = [LEAST_LEFT * each for each in known.noise(known.levels)]
        raised, lowered = moves[0], moves[1:]
        kept = map(max, known.noise(known.after([raised])), least)
        more = [sum(known.alone[move.number, at] for move in lowered) * FACTOR[at] for at in range(OUTPUTS)]
        return known.price(moves) < 0 and all(a + b <= limit for a, b in zip(kept, more, strict=True))

    pairs = [*((move,) for move in down), *combinations(down, 2)]
    expected = {(move, frozenset(pair)) for move in up for pair in pairs if is_good((move, *pair))}
    found = known.prediction.exchanges(down, up)
    assert {(moves[0], frozenset(moves[1:])) for moves in found} == expected
    assert len(found) == len(expected)
    prices = [known.price(moves) for moves in found]
    assert prices == pytest.approx(sorted(prices))


def test_an_output_that_is_zero_everywhere_has_no_part_in_it():
    silent = Noise(np.array([[4.0, 0.0]]), np.array([[1.0, 5.0]]))
    powers = Powers(lambda move: np.array([1.0, 5.0]) * (move.level is Level.QUANTIZED), lambda _: 0.0)
    assert Prediction((Level.QUANTIZED,), silent, powers, 3.0).up([Move(0, Level.FLOAT)]) == []


Q, B, F = Level


def test_the_highest_level_counts_whatever_the_order():
    levels = (Q, Q, B)
    assert moved(levels, [Move(0, B), Move(2, F)]) == (B, Q, F)
    assert moved(levels, [Move(0, B), Move(0, F)]) == moved(levels, [Move(0, F), Move(0, B)]) == (F, Q, B)
    assert moved((F, B), [Move(0, B), Move(1, Q)]) == (B, Q)
    assert moved(levels, []) == levels


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 11, 40])
def test_every_move_is_tried_with_few_others_and_in_the_end_all_are(count: int):
    order = [Move(number, F) for number in range(count)]
    sets = list(sets_to_try(order, 4))
    small = [each for tried in sets for each in tried if len(each) <= 4]
    assert {move for each in small for move in each} == set(order)
    assert all(len(tried) <= 4 for tried in sets)
    if count:
        assert sets[0][0] == (order[0],)
        assert len(sets[-1][-1]) == count
    sizes = [len(each) for tried in sets for each in tried if len(each) > 4]
    assert sizes == sorted(set(sizes))
    assert len(sizes) <= 4


def test_only_outputs_below_the_goal_lack_something():
    assert shortfall(np.array([20.0, 31.0, 30.0, 27.5]), 30.0) == 12.5
    assert shortfall(np.array([math.inf]), 30.0) == 0
    assert shortfall(np.array([[20.0, 29.0], [31.0, 28.0]]), 30.0).tolist() == [11.0, 2.0]


def test_an_output_that_is_zero_everywhere_is_not_heard_and_one_that_is_not_finite_is_the_worst():
    noise = Noise(np.array([[1.0, 0.0, 2.0], [3.0, 0.0, 2.0]]), np.array([[0.01, 5.0, 0.0], [0.03, 0.0, np.inf]]))
    assert sqnr_of_active_outputs(noise) == pytest.approx([20.0, -WORST_DB])
    assert noise_power(noise) == pytest.approx([0.04, 0.0, 4e30])
