"""Weights that are computed from constants are stored; the model computes the same, and nothing else changes."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser
from support.ort_verdict import ort_outputs

from qdqtool.models.graph.io.save import inlined
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.computed_weights import ComputedWeight, store_computed_weights

NORMALIZED = "n = ReduceL2 <axes = [1, 2]> (v)  d = Div (v, n)  w = Mul (d, g)"


def network(body: str, outputs: str = "float[1,8,6] y", function: str = "") -> Model:
    text = (
        f'<ir_version: 8, opset_import: ["": 17, "own": 1]> net (float[1,4,8] x) => ({outputs}) {{ {body} }} {function}'
    )
    proto, random = parser.parse_model(text), np.random.default_rng(0)
    shapes = {"v": (8, 4, 3), "g": (8, 1, 1), "t": (3, 4, 8), "z": (8, 4, 3)}
    read = {name for node in proto.graph.node for name in node.input}
    for name in sorted(shapes.keys() & read):
        array = (
            random.integers(-9, 9, shapes[name]).astype(np.int8) if name == "z" else random.normal(size=shapes[name])
        )
        stored = numpy_helper.from_array(array if name == "z" else array.astype(np.float32), name)
        proto.graph.initializer.append(stored)
    proto.graph.initializer.append(numpy_helper.from_array(np.float32(0.1), "s"))
    return Model(proto)


def names(model: Model) -> list[str]:
    return [node.op_type for node in model.proto.graph.node]


def test_what_normalizes_a_weight_goes_with_it() -> None:
    model = network(f"{NORMALIZED} y = Conv (x, w)")
    stored = store_computed_weights(model)
    assert stored.report == (ComputedWeight("w", "", "Mul"),)
    assert names(stored.model) == ["Conv"]
    proto = inlined(stored.model)
    assert {tensor.name for tensor in proto.graph.initializer} == {"w", "s"}
    g, v = (numpy_helper.to_array(each) for each in model.proto.graph.initializer if each.name in "gv")
    exact = v.astype(np.float64) / np.sqrt(np.square(v.astype(np.float64)).sum((1, 2), keepdims=True)) * g
    (w,) = (numpy_helper.to_array(each) for each in proto.graph.initializer if each.name == "w")
    np.testing.assert_allclose(w, exact, rtol=4e-7)
    x = {"x": np.random.default_rng(1).normal(size=(1, 4, 8)).astype(np.float32)}
    np.testing.assert_allclose(ort_outputs(proto, x)["y"], ort_outputs(model.proto, x)["y"], rtol=1e-5, atol=1e-6)


def test_a_weight_that_two_layers_read_is_stored_once() -> None:
    stored = store_computed_weights(network(f"{NORMALIZED} a = Conv (x, w)  b = Conv (x, w)  y = Add (a, b)"))
    assert [each.tensor for each in stored.report] == ["w"]
    assert names(stored.model) == ["Conv", "Conv", "Add"]


def test_what_something_else_reads_stays() -> None:
    stored = store_computed_weights(network(f"{NORMALIZED} a = Conv (x, w)  y = Mul (a, k)  k = ReduceMax (d)"))
    assert [each.tensor for each in stored.report] == ["w"]
    assert sorted(names(stored.model)) == ["Conv", "Div", "Mul", "ReduceL2", "ReduceMax"]


@pytest.mark.parametrize(
    "body",
    [
        "w = Transpose <perm = [2, 1, 0]> (t)  y = Conv (x, w)",
        "w = Identity (v)  y = Conv (x, w)",
        "w = DequantizeLinear (z, s)  y = Conv (x, w)",
        "d = DequantizeLinear (z, s)  w = Transpose <perm = [0, 1, 2]> (d)  y = Conv (x, w)",
        "w = Mul (v, x)  y = Conv (x, v)",
        "y = Conv (x, v)",
    ],
)
def test_what_is_stored_moved_dequantized_or_no_weight_stays(body: str) -> None:
    model = network(body)
    stored = store_computed_weights(model)
    assert stored.report == ()
    assert stored.model is model


def test_a_weight_that_is_an_output_stays() -> None:
    model = network(f"{NORMALIZED} y = Conv (x, w)", "float[1,8,6] y, float[8,4,3] w")
    assert store_computed_weights(model).model is model


def test_weights_of_local_functions_stay() -> None:
    function = '<domain: "own", opset_import: ["": 17]> layer (a, v, g) => (c) { w = Mul (v, g)  c = Conv (a, w) }'
    model = network("y = own.layer (x, v, g)", function=function)
    assert store_computed_weights(model).model is model


def test_a_weight_in_a_branch_is_stored_there() -> None:
    body = """b = ReduceMax <keepdims = 0> (x)  c = Cast <to = 9> (b)
        y = If (c) <then_branch = yes () => (float[1,8,6] p) { w = Mul (v, g)  p = Conv (x, w) },
                    else_branch = no () => (float[1,8,6] q) { q = Conv (x, v) }>"""
    model = network(body)
    for name, shape in (("v", (8, 4, 3)), ("g", (8, 1, 1))):
        array = np.random.default_rng(2).normal(size=shape).astype(np.float32)
        model.proto.graph.initializer.append(numpy_helper.from_array(array, name))
    (each,) = store_computed_weights(model).report
    assert (each.tensor, each.op_type) == ("w", "Mul")
    assert "then_branch" in each.graph
    onnx.checker.check_model(inlined(store_computed_weights(model).model), full_check=True)
