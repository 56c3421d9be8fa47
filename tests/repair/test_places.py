"""The places of a change are the outputs of the operators that read what changed, through Q and DQ."""

import onnx

from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.model import Model
from qdqtool.repair.places import changed_places

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
