"""Moves of layers, alone and together."""

import pytest

from qdqtool.accuracy.layers.fallback import Level
from qdqtool.accuracy.layers.prediction import Move, moved, sets_to_try

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
