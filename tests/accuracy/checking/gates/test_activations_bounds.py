"""The bound of a tensor is that of the operator that makes it, seen through pairs and what moves values."""

import pytest
from support.qdq import text_model

from qdqtool.accuracy.checking.gates.activations import bound_of
from qdqtool.models.graph.index.model_index import ModelIndex

CHAIN = """
<ir_version: 10, opset_import: ["": 21]>
g (float[2,3] x) => (float[3,2] y)
<float s = {{0.5}}, int8 zp = {{0}}>
{{
  a = {op}
  t = Transpose <perm = [1, 0]> (a)
  q = QuantizeLinear (t, s, zp)
  y = DequantizeLinear (q, s, zp)
}}
"""


@pytest.mark.parametrize(
    ("op", "bound"),
    [("Sigmoid (x)", 1.0), ("Softmax (x)", 1.0), ("Tanh (x)", 1.0), ("Relu (x)", None), ("Mul (x, x)", None)],
)
def test_the_bound_is_that_of_the_operator_in_front(op: str, bound: float | None) -> None:
    index = ModelIndex.of(text_model(CHAIN.format(op=op)))
    assert bound_of(index, index.view.main.values["y"]) == bound


def test_an_input_has_no_bound() -> None:
    index = ModelIndex.of(text_model(CHAIN.format(op="Relu (x)")))
    assert bound_of(index, index.view.main.values["x"]) is None
    assert bound_of(index, None) is None
