"""Random values stay in the range of the first Q that reads them."""

import numpy as np
import pytest
from onnx import numpy_helper
from support.qdq import text_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.samples.noise import random_feeds
from qdqtool.samples.random_values import range_of
from qdqtool.samples.signature import input_specs

MODEL = """
<ir_version: 10, opset_import: ["": 21]>
g (float[1,3,50,50] x) => (float[1,50,50,3] y)
<float s = {{{scale}}}, {kind} zp = {{{zero}}}>
{{
  t = Transpose <perm = [0, 2, 3, 1]> (x)
  {between}
  q = QuantizeLinear (m, s, zp)
  y = DequantizeLinear (q, s, zp)
}}
"""


def index_of(scale: float, zero: int = 0, kind: str = "int8", between: str = "m = Identity (t)") -> ModelIndex:
    return ModelIndex.of(text_model(MODEL.format(scale=scale, zero=zero, kind=kind, between=between)))


@pytest.mark.parametrize(
    ("scale", "zero", "kind", "low", "high"),
    [(1 / 255, 0, "uint8", 0, 1), (0.02, 114, "uint8", -2.28, 2.82), (1.0, 0, "int8", -128, 127)],
)
def test_floats_fill_the_range_and_stay_inside_it(scale: float, zero: int, kind: str, low: float, high: float) -> None:
    index = index_of(scale, zero, kind)
    x = np.concatenate([each["x"].ravel() for each in random_feeds(index, input_specs(index.model), seed=0)])
    assert np.mean(x) == pytest.approx((low + high) / 2, abs=0.01 * (high - low))
    assert np.std(x) == pytest.approx((high - low) / 8, rel=0.02)
    assert np.mean((x >= low) & (x <= high)) > 0.999


@pytest.mark.parametrize("scale", [1e-12, 1e6])
def test_scales_that_no_input_has_are_not_followed(scale: float) -> None:
    assert range_of("x", index_of(scale)) is None


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("zero", [0, 3])
def test_a_scale_that_is_not_finite_is_not_followed(bad: float, zero: int) -> None:
    model = text_model(MODEL.format(scale=1.0, zero=zero, kind="uint8", between="m = Identity (t)"))
    stored = next(tensor for tensor in model.proto.graph.initializer if tensor.name == "s")
    stored.CopyFrom(numpy_helper.from_array(np.float32(bad), "s"))
    assert range_of("x", ModelIndex.of(model)) is None


def test_what_computes_hides_the_range() -> None:
    assert range_of("x", index_of(0.1, between="m = Exp (t)")) is None
