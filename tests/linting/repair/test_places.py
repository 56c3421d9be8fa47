"""The places of a change are the outputs of the operators that read what changed, through Q and DQ."""

import onnx

from qdqtool.linting.repair.places import changed_places
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model

CHAIN = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2,2] x) => (float[2,2] y) <float s = {0.1}, float t = {0.2}, int8 z = {0}, float[2,2] w = {1, 2, 3, 4}> {
  a = Relu (x)
  q = QuantizeLinear (a, s, z)
  d = DequantizeLinear (q, s, z)
  m = MatMul (d, w)
  r = Tanh (m)
  y = Neg (r)
}
"""


def index(text: str) -> ModelIndex:
    return ModelIndex.of(Model(onnx.parser.parse_model(text)))


def places(before: str, after: str) -> dict[str, tuple[str, ...]]:
    found = changed_places(index(before), index(after))
    return {place.key[1]: tuple(name for _, name in place.readers) for place in found}


def test_equal_models_have_none() -> None:
    assert places(CHAIN, CHAIN) == {}


def test_a_changed_pair_shows_at_the_operator_behind_it() -> None:
    after = CHAIN.replace("QuantizeLinear (a, s", "QuantizeLinear (a, t").replace("(q, s, z)", "(q, t, z)")
    assert places(CHAIN, after) == {"m": ("r",)}


def test_a_changed_operator_shows_at_its_own_output() -> None:
    assert places(CHAIN, CHAIN.replace("MatMul (d, w)", "MatMul (x, w)")) == {"m": ("r",)}


def test_what_has_another_operator_or_name_is_passed_by() -> None:
    assert places(CHAIN, CHAIN.replace("Tanh (m)", "Abs (m)")) == {}
    after = CHAIN.replace("m = MatMul (d, w)", "m2 = Identity (d) m = MatMul (m2, w)")
    assert places(CHAIN, after) == {"m": ("r",)}


def test_codes_may_change_between_q_and_dq() -> None:
    moved = "q = QuantizeLinear (a, s, z) n = Transpose (q) d = DequantizeLinear (n, s, z)"
    before = CHAIN.replace("q = QuantizeLinear (a, s, z)\n  d = DequantizeLinear (q, s, z)", moved)
    assert places(before, before.replace("(a, s, z)", "(a, t, z)")) == {"m": ("r",)}


TWO = CHAIN.replace("y = Neg (r)", "k = Abs (m) y = Neg (r)")


def test_every_reader_of_a_place_is_one_of_its_readers() -> None:
    assert places(TWO, TWO.replace("MatMul (d, w)", "MatMul (x, w)")) == {"m": ("r", "k")}


def test_a_reader_behind_another_pair_is_found_once() -> None:
    pair = "e = QuantizeLinear (m, s, z) f = DequantizeLinear (e, s, z) r = Mul (f, f)"
    text = CHAIN.replace("r = Tanh (m)", pair)
    assert places(text, text.replace("MatMul (d, w)", "MatMul (x, w)")) == {"m": ("r",)}


def test_a_changed_constant_node_shows_at_what_reads_it() -> None:
    text = CHAIN.replace("m = MatMul (d, w)", "v = Constant <value = float[2,2] {1, 2, 3, 4}> () m = MatMul (d, v)")
    assert places(text, text.replace("{1, 2, 3, 4}> ()", "{1, 2, 3, 5}> ()")) == {"m": ("r",)}


def test_a_changed_weight_shows_at_the_operator_behind_those_that_move_it() -> None:
    """The Transpose of a constant is constant: no run reads it."""
    text = CHAIN.replace(
        "m = MatMul (d, w)", "k = DequantizeLinear (w8, s, z) v = Transpose (k) u = Neg (v) m = MatMul (d, u)"
    ).replace("float s", "int8[2,2] w8 = {1, 2, 3, 4}, float s")
    assert places(text, text.replace("(w8, s", "(w8, t")) == {"m": ("r",)}
    assert places(text, text.replace("u = Neg (v)", "u = Abs (v)")) == {"m": ("r",)}


def test_an_operator_that_reads_a_place_twice_hides_no_other_reader() -> None:
    text = CHAIN.replace("r = Tanh (m)", "h = Mul (m, m) r = Tanh (m)")
    assert places(text, text.replace("MatMul (d, w)", "MatMul (x, w)")) == {"m": ("h", "r")}


def test_the_floats_of_an_operator_that_makes_whole_numbers_too_are_places() -> None:
    text = CHAIN.replace("r = Tanh (m)", "h, i = TopK (m, one) r = Tanh (h)").replace(
        "float s", "int64[1] one = {1}, float s"
    )
    assert places(text, text.replace("TopK (m, one)", "TopK <axis = 0> (m, one)")) == {"h": ("r",)}


def test_codes_and_other_numbers_are_no_places() -> None:
    text = CHAIN.replace("r = Tanh (m)", "i = Cast <to = 7> (m) j = Neg (i) h = Cast <to = 1> (j) r = Tanh (h)")
    assert places(text, text.replace("Neg (i)", "Abs (i)")) == {"h": ("r",)}


def test_at_most_64_places_are_compared() -> None:
    lines = " ".join(f"p{number} = Mul (x, s)" for number in range(70))
    text = CHAIN.replace("a = Relu (x)", f"a = Relu (x) {lines}")
    assert len(places(text, text.replace("Mul (x, s)", "Mul (x, t)"))) == 64


def test_nodes_of_bodies_are_told_apart_by_their_scope() -> None:
    text = CHAIN.replace("float[2,2] x)", "float[2,2] x, bool c)").replace(
        "y = Neg (r)",
        """y = If (c) <
            then_branch = one () => (float[2,2] u) { u = Mul (r, s) },
            else_branch = two () => (float[2,2] v) { v = Mul (r, s) }
        >""",
    )
    assert places(text, text.replace("u = Mul (r, s)", "u = Mul (r, t)")) == {"u": (), "y": ()}
