"""What a reader gets: the steps behind operators that only move values."""

import pytest
from support.qdq import text_model

from qdqtool.models.diff.matching import Side, sites
from qdqtool.models.diff.readings import commutes, computes, reading

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
