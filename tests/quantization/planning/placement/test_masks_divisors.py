"""Products whose result becomes a divisor stay float in int8: where they are found, and what it is worth."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.ort_verdict import ort_outputs

from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats
from qdqtool.quantization.planning.existing_pairs import propose_for
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe

LINEAR_ATTENTION = """
    q0 = MatMul (x, wq)  q = Relu (q0)
    k0 = MatMul (x, wk)  k = Relu (k0)
    v0 = MatMul (x, wv)  v = Concat <axis = 2> (v0, ones)
    kt = Transpose <perm = [0,2,1]> (k)
    [keys] kv = MatMul (kt, v)
    [queries] o = MatMul (q, kv)
    above = Slice (o, zero, last, two)  below = Slice (o, last, end, two)
    safe = Add (below, least)
    y = Div (above, safe)
"""


def network(body: str = LINEAR_ATTENTION) -> onnx.ModelProto:
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[1,32,64] x) => (float[1,32,64] y) {{ {body} }}'
    model, random = parser.parse_model(text), np.random.default_rng(0)
    constants: dict[str, object] = {
        name: random.normal(size=(64, 64)).astype(np.float32) for name in ("wq", "wk", "wv")
    }
    # Trained queries are sparse, and of very different sizes from token to token.
    constants |= {"ones": np.ones((1, 32, 1), np.float32), "least": np.float32(1e-15)}
    constants |= {"zero": [0], "last": [64], "end": [65], "two": [2]}
    for name, array in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.array(array), name))
    return model


def left(model: onnx.ModelProto, **recipe: object) -> dict[str, str]:
    proposal = propose_for(ModelIndex.of(Model(model)), Recipe(**recipe))
    return {entry.node: entry.reason.text for entry in proposal.skipped if entry.reason.code == "divisor"}


def test_both_products_of_linear_attention_stay_float() -> None:
    found = left(network())
    assert found.keys() == {"keys", "queries"}
    assert found["keys"].startswith("its result becomes the divisor of 'Div -> y'")


def test_float_formats_keep_small_numbers() -> None:
    assert formats.get("float8e4m3fn").kind == "float"
    assert left(network(), quantize_mode="fp8") == {}


def test_who_names_the_operator_gets_it() -> None:
    assert left(network(), selection=Selection(op_types_to_quantize=("MatMul",))) == {}


@pytest.mark.parametrize(
    ("end", "named"),
    [
        ("y = Div (above, safe)", True),
        ("s = ReduceSum <keepdims = 1> (safe, two)  y = Div (above, s)", True),
        ("m = Max (safe, least)  y = Div (above, m)", True),
        ("y = Div (safe, wide)  wide = Exp (above)", False),
        ("n = Sqrt (safe)  y = Div (above, n)", False),
        ("n = Softmax (above)  y = Div (above, n)", False),
        ("y = Mul (above, safe)", False),
    ],
)
def test_only_sums_and_moves_lie_between(end: str, named: bool) -> None:
    assert bool(left(network(LINEAR_ATTENTION.replace("y = Div (above, safe)", end)))) == named


def test_a_product_with_weights_behind_it_hides_the_divisor() -> None:
    body = """k = Relu (x)  t = Transpose <perm = [0,2,1]> (k)  s = MatMul (k, t)  r = MatMul (s, x)
        p = MatMul (r, wq)  a = Abs (r)  y = Div (a, p)"""
    assert left(network(body)) == {}


def test_the_outputs_keep_more(tmp_path: Path) -> None:
    """Tokens of very different sizes: the queries of small ones round to 0."""
    model, random = network(), np.random.default_rng(1)
    onnx.save(model, tmp_path / "float.onnx")
    x = (random.normal(size=(16, 1, 32, 64)) * 10.0 ** random.uniform(-3, 0, (16, 1, 32, 1))).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x[:8])
    found = []
    for selection in (Selection(), Selection(op_types_to_quantize=("MatMul",))):
        recipe = Recipe(selection=selection)
        quantize_model(tmp_path / "float.onnx", tmp_path / "d.npz", tmp_path / "q.onnx", QuantizeOptions(recipe=recipe))
        quantized, errors = onnx.load(tmp_path / "q.onnx"), []
        for sample in x[8:]:
            expected, got = (ort_outputs(each, {"x": sample})["y"].astype(np.float64) for each in (model, quantized))
            errors.append(np.median(np.abs(expected - got)) / np.median(np.abs(expected)))
        found.append(float(np.mean(errors)))
    ours, all_of_them = found
    assert ours < 0.5 * all_of_them
