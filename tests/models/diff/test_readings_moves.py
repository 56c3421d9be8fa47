"""Moved pairs: near, equal, each once, the nearest first."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.qdq import text_model

from qdqtool.models.diff.readings import Moved, pair_moves
from qdqtool.models.graph.index.view import GraphView, NodeView

LENGTH = 9
NODES = "".join(f" t{number + 1} = Neg (t{number})" for number in range(LENGTH))
CHAIN = f"""<ir_version: 10, opset_import: ["": 21]> g (float[1] t0) => (float[1] t{LENGTH}) {{{NODES} }}"""


def chain() -> list[NodeView]:
    return list(GraphView(text_model(CHAIN)).nodes())


LEFT, RIGHT = chain(), chain()
PAIRED = dict(zip(LEFT, RIGHT, strict=True))


def moves(gone: Sequence[tuple[str, int]], came: Sequence[tuple[str, int]]) -> list[tuple[int, int]]:
    """Steps are words here, next to the node of a number; equal words have equal constants."""
    first = [Moved(word, frozenset({LEFT[at]})) for word, at in gone]
    second = [Moved(word, frozenset({RIGHT[at]})) for word, at in came]
    return list(pair_moves(first, second, PAIRED, lambda old, new: old == new))


@pytest.mark.parametrize("start", [0, 4, LENGTH - 1])
@pytest.mark.parametrize("end", range(LENGTH))
def test_a_pair_moves_past_three_nodes_at_most_in_either_direction(start: int, end: int) -> None:
    assert moves([("a", start)], [("a", end)]) == ([(0, 0)] if abs(start - end) <= 3 else [])


def test_a_pair_with_other_constants_is_another() -> None:
    assert moves([("a", 4)], [("b", 4), ("a", 6)]) == [(0, 1)]


def test_the_nearest_is_taken_and_only_once() -> None:
    assert moves([("a", 4), ("a", 4), ("a", 4)], [("a", 6), ("a", 5)]) == [(0, 1), (1, 0)]
    assert moves([("b", 0), ("a", 1)], [("a", 1)]) == [(1, 0)]


@given(*[st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, LENGTH - 1)), max_size=4)] * 2)
def test_each_takes_the_nearest_that_is_left(gone: list[tuple[str, int]], came: list[tuple[str, int]]) -> None:
    left = dict(enumerate(came))
    for number, (word, at) in enumerate(gone):
        found = [after for before, after in moves(gone, came) if before == number]
        near = {other: abs(place - at) for other, (kind, place) in left.items() if kind == word}
        reached = {other: distance for other, distance in near.items() if distance <= 3}
        assert len(found) == bool(reached)
        if found:
            assert near[found[0]] == min(reached.values())
            del left[found[0]]


def test_a_pair_next_to_several_nodes_is_near_all_of_them() -> None:
    first = [Moved("a", frozenset({LEFT[0], LEFT[8]}))]
    second = [Moved("a", frozenset({RIGHT[5]}))]
    assert list(pair_moves(first, second, PAIRED, lambda old, new: old == new)) == [(0, 0)]


def test_nodes_without_a_counterpart_are_passed() -> None:
    first, second = [Moved("a", frozenset({LEFT[4]}))], [Moved("a", frozenset({RIGHT[5]}))]
    some = {node: other for node, other in PAIRED.items() if node is not LEFT[4]}
    assert list(pair_moves(first, second, some, lambda old, new: old == new)) == [(0, 0)]
    assert list(pair_moves(first, second, {}, lambda old, new: old == new)) == []


def test_absent_inputs_are_no_way() -> None:
    text = CHAIN.replace("t5 = Neg (t4)", 't5 = Clip (t4, "", "")')
    nodes, others = (list(GraphView(text_model(text)).nodes()) for _ in range(2))
    paired = dict(zip(nodes, others, strict=True))
    first, second = [Moved("a", frozenset({nodes[5]}))], [Moved("a", frozenset({others[3]}))]
    assert list(pair_moves(first, second, paired, lambda old, new: old == new)) == [(0, 0)]
