"""What a reader gets: the steps behind operators that only move values, and pairs that moved."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.qdq import text_model

from qdqtool.models.diff.matching import Side, sites
from qdqtool.models.diff.readings import Moved, commutes, computes, pair_moves, reading
from qdqtool.models.graph.index.view import GraphView, NodeView

HEADER = '<ir_version: 10, opset_import: ["": 21]>'
CONSTANTS = """<float s = {0.5}, float t = {0.25}, float[2] a = {1, 2}, int8[2] o = {0, 0}, int8 z = {0},
    int64[2] n = {2, 2}>"""


def told(body: str, name: str = "y") -> list[tuple[str, int]]:
    """The first node and the moves of each step in front of a tensor."""
    side = Side(text_model(f"{HEADER} g (float[2,2] x, bool b) => (float[2,2] y) {CONSTANTS} {{ {body} }}"))
    return [(each.step.first.output.name, each.moves) for each in reading(side, side.index.view.main.values[name])]


def pair(source: str, number: int, scale: str = "s", zero: str = "z") -> str:
    words = "<axis = 0>" if scale == "a" else ""
    return (
        f"q{number} = QuantizeLinear {words} ({source}, {scale}, {zero})"
        f" d{number} = DequantizeLinear {words} (q{number}, {scale}, {zero}) "
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = Neg (x)", []),
        (f"{pair('x', 1)} y = Identity (d1)", [("q1", 0)]),
        (f"{pair('x', 1)} y = Neg (d1)", []),
        (f"{pair('x', 1)} t1 = Transpose (d1) y = Reshape (t1, n)", [("q1", 0)]),
        (f"{pair('x', 1, 'a', 'o')} t1 = Transpose (d1) y = Reshape (t1, n)", [("q1", 2)]),
        (f"{pair('x', 1, 'a', 'o')} t1 = Transpose (d1) y = Identity (t1)", [("q1", 1)]),
        (f"{pair('x', 1, 'a', 'o')} i = Identity (d1) y = Dropout (i)", [("q1", 0)]),
        (f"{pair('x', 1)} y = Relu (d1)", [("q1", 0)]),
        (f"{pair('x', 1)} {pair('d1', 2)} y = Identity (d2)", [("q2", 0)]),
        (f"{pair('x', 1, 't')} {pair('d1', 2)} y = Identity (d2)", [("q2", 0), ("q1", 0)]),
        (f"{pair('x', 1)} m = Transpose (d1) {pair('m', 2)} y = Identity (d2)", [("q2", 0)]),
        (
            f"{pair('x', 1, 'a', 'o')} m = Transpose (d1) {pair('m', 2, 'a', 'o')} y = Identity (d2)",
            [("q2", 0), ("q1", 1)],
        ),
        (f"{pair('x', 1, 't')} m = Neg (d1) {pair('m', 2)} y = Identity (d2)", [("q2", 0)]),
    ],
)
def test_steps_with_the_moves_behind_them(body: str, expected: list[tuple[str, int]]) -> None:
    assert told(body) == expected


@pytest.mark.parametrize(("moves", "found"), [(63, 1), (64, 0)])
def test_a_limited_number_of_operators_is_followed(moves: int, found: int) -> None:
    steps = "".join(f" d{n + 1} = Identity (d{n})" for n in range(1, moves + 1))
    assert len(told(f"{pair('x', 1)} {steps} y = Neg (x)", f"d{moves + 1}")) == found


def test_a_limited_number_of_steps_is_told() -> None:
    """Each scale differs from the next, with a move in between."""
    body, last = "", "x"
    for number in range(18):
        body += f"i{number} = Identity ({last}) {pair(f'i{number}', number, 'st'[number % 2])}"
        last = f"d{number}"
    assert len(told(f"{body} y = Identity ({last})")) == 16


def test_steps_in_a_row_are_limited_too() -> None:
    body = "".join(pair(f"d{number - 1}" if number else "x", number, "st"[number % 2]) for number in range(18))
    assert len(told(f"{body} y = Identity (d17)")) == 16


@pytest.mark.parametrize(
    ("node", "same"),
    [
        ("y = Transpose (x)", True),
        ("y = Relu (x)", True),
        ("y = Identity (x)", True),
        ("y = Cast <to = 1> (x)", True),
        ("y = Neg (x)", False),
        ("y = Add (x, x)", False),
        ("y = Reshape (x, n)", True),
    ],
)
def test_a_pair_gives_the_same_on_either_side_of_what_moves_values(node: str, same: bool) -> None:
    side = Side(text_model(f"{HEADER} g (float[2,2] x, bool b) => (float[2,2] y) {CONSTANTS} {{ {node} }}"))
    (found,) = side.index.view.nodes()
    assert commutes(found) == same
    inputs = [computes(site) for site in sites(side.index.view.main)]
    # Another input than the first, and an output of the graph, are never moved.
    assert inputs == [not same, *[True] * (len(found.proto.input) - 1), True]


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
