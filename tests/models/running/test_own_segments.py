"""Nodes of half-precision types that ONNX Runtime has no kernel for: in float32, rounded after each node."""

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from support.qdq import constant, pair_model, text_model
from support.small import make_model

from qdqtool.accuracy.checking.qdq_reference import differing
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.options import Profile
from qdqtool.models.running.observer import Observer
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.numerics import formats
from qdqtool.numerics.affine import fake_quantize
from qdqtool.numerics.dtypes import BFLOAT16
from qdqtool.numerics.granularity import PerTensor

T = TensorProto
X = np.random.default_rng(4).normal(size=(2, 4)).astype(np.float32)

BODIES = """
<ir_version: 10, opset_import: ["": 21, "my": 1]>
g (bfloat16[2,4] x, bool c) => (bfloat16[2,4] y, bfloat16[n,2,4] z, bfloat16[2,4] w)
<int64 n = {3}, bool true = {1}, bfloat16 one = {16256}>
{
  a = Add (x, x)
  p = If (c) <
    then_branch = tb () => (bfloat16[2,4] o) { q = Mul (a, x) o = Sub (q, a) },
    else_branch = eb () => (bfloat16[2,4] o) { q = Div (a, x) o = Add (q, one) }
  >
  y, z = Loop (n, true, p) <
    body = lb (int64 i, bool go, bfloat16[2,4] s) => (bool on, bfloat16[2,4] t, bfloat16[2,4] u) {
      on = Identity (go)
      t = Mul (s, a)
      u = If (go) <
        then_branch = tt () => (bfloat16[2,4] r) { r = Mul (t, x) },
        else_branch = ee () => (bfloat16[2,4] r) { r = Neg (t) }
      >
    }
  >
  w = my.f (y)
}
<domain: "my", opset_import: ["": 21]>
f (v) => (r) { h = Mul (v, v) r = Sub (h, v) }
"""


def evaluate(model: Model, feeds: dict[str, np.ndarray], profile: Profile = Profile.SEMANTIC) -> dict[str, np.ndarray]:
    with open_session(model, plan_split(ModelIndex.of(model)), profile) as session:
        return session.run(feeds)


def test_bfloat16_nodes_run_in_float32_and_are_rounded() -> None:
    w = np.random.default_rng(1).normal(size=(4, 8)).astype(BFLOAT16)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "m"], ["y"])]
    model = Model(make_model(nodes, {"x": (2, 4)}, {"y": (2, 8)}, {"w": w}, opset=21, elem_type=T.BFLOAT16))
    x = X.astype(BFLOAT16)
    # Products of bfloat16 are exact in float32, and the sums of 4 are exact in float64.
    products = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float32).astype(BFLOAT16)
    assert evaluate(model, {"x": X})["y"].tobytes() == (products + products).tobytes()


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("condition", [True, False])
def test_bodies_and_functions_are_rounded_after_each_node_in_each_profile(profile: Profile, condition: bool) -> None:
    model, c = text_model(BODIES), np.array(condition)
    expected = ReferenceEvaluator(model.proto).run(None, {"x": X.astype(BFLOAT16), "c": c})
    actual = evaluate(model, {"x": X, "c": c}, profile)
    assert [array.dtype for array in actual.values()] == [BFLOAT16] * 3
    assert [array.tobytes() for array in actual.values()] == [array.tobytes() for array in expected]


def test_inner_tensors_of_bodies_are_read_as_float32() -> None:
    index = ModelIndex.of(text_model(BODIES))
    inner = [index.view.scope(("y.body",)).values["t"], index.view.scope(("my::f",)).values["h"]]
    with Observer(index, inner) as observer:
        run = observer.run({"x": X, "c": np.array(True)})
        t, h = (run[observer.taps(value)[0].output] for value in inner)
    y = evaluate(index.model, {"x": X, "c": np.array(True)})["y"]
    assert t.shape == (3, 2, 4)
    assert t[-1].tobytes() == y.astype(np.float32).tobytes()
    assert h.tobytes() == (y * y).astype(np.float32).tobytes()


@pytest.mark.parametrize("name", ["int8", "uint8", "float8e4m3fn", "float8e5m2"])
def test_pairs_of_bfloat16_give_the_bits_of_our_own_core_for_every_value(name: str) -> None:
    fmt, scale = formats.get(name), np.array(0.1, BFLOAT16)
    model = pair_model(fmt.onnx_type, float_type=T.BFLOAT16, scale=0.1)
    split = plan_split(ModelIndex.of(model))
    assert split is not None
    assert not split.own
    x = np.arange(1 << 16, dtype=np.uint16).view(BFLOAT16)
    with np.errstate(all="ignore"):
        expected = fake_quantize(x, scale, fmt, PerTensor(), np.zeros((), fmt.dtype))
        actual = evaluate(model, {"x": x.astype(np.float32)})["y"]
    assert not differing(actual, expected).any()


@pytest.mark.parametrize(
    ("change", "is_own"),
    [
        ({}, False),
        ({"scale": np.float32([0.1, 0.2])}, True),
        ({"quantized": T.INT16}, True),
        ({"precision": T.FLOAT}, True),
        ({"opset": 28}, True),
    ],
)
def test_other_pairs_of_bfloat16_are_left_to_our_own_core(change: dict[str, Any], is_own: bool) -> None:
    model = pair_model(change.get("quantized", T.INT8), float_type=T.BFLOAT16)
    graph = model.proto.graph
    graph.input[0].type.tensor_type.shape.dim.add(dim_value=2)
    graph.initializer[0].CopyFrom(constant("s", change.get("scale", 0.1), T.BFLOAT16))
    for node in graph.node:
        del node.input[2:]
    graph.node[0].attribute.append(helper.make_attribute("output_dtype", change.get("quantized", T.INT8)))
    graph.node[0].attribute.append(helper.make_attribute("precision", change.get("precision", 0)))
    model.proto.opset_import[0].version = change.get("opset", 23)
    split = plan_split(ModelIndex.of(model))
    assert split is not None
    assert (tuple(graph.node[0].output) in split.own) is is_own


@pytest.mark.parametrize("elem_type", [T.FLOAT16, T.BFLOAT16])
def test_types_that_attributes_name_are_kept(elem_type: int) -> None:
    half = helper.tensor_dtype_to_np_dtype(elem_type)
    nodes = [
        helper.make_node("EyeLike", ["x"], ["eye"], dtype=elem_type),
        helper.make_node("HannWindow", ["n"], ["window"], output_datatype=elem_type),
        helper.make_node("BitCast", ["eye"], ["bits"], to=T.UINT16),
    ]
    outputs = [("eye", elem_type), ("window", elem_type), ("bits", T.UINT16)]
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", T.FLOAT, [2, 4])],
        [helper.make_tensor_value_info(name, found, None) for name, found in outputs],
        [helper.make_tensor("n", T.INT64, [], [5])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=11)
    actual = evaluate(Model(model), {"x": X})
    window = np.sin(np.pi * np.arange(5) / 5) ** 2
    assert actual["eye"].tobytes() == np.eye(2, 4).astype(half).tobytes()
    assert actual["window"].tobytes() == window.astype(np.float32).astype(half).tobytes()
    assert actual["bits"].tobytes() == actual["eye"].tobytes()


@pytest.mark.parametrize(("operator", "is_widened"), [("ScatterND <reduction = 'add'>", True), ("ScatterND", False)])
def test_float16_nodes_without_a_kernel_run_in_float32(operator: str, is_widened: bool) -> None:
    text = f"""
    <ir_version: 10, opset_import: ["": 21]>
    g (float16[4] x) => (float16[4] y) <int64[1,1] i = {{1}}, float16[1] u = {{15361}}>
    {{ y = {operator.replace("'", '"')} (x, i, u) }}
    """
    model, x = text_model(text), X[0].astype(np.float16)
    assert (plan_split(ModelIndex.of(model), Profile.DEPLOYED) is not None) is is_widened
    expected, update = x.copy(), np.array(15361, np.uint16).view(np.float16)
    expected[1] = expected[1] + update if is_widened else update
    assert evaluate(model, {"x": x})["y"].tobytes() == expected.tobytes()


def test_float16_is_rounded_after_every_node_although_onnx_runtime_removes_its_own_casts() -> None:
    model = text_model("""
    <ir_version: 10, opset_import: ["": 21]>
    g (float16[4] x) => (float16[4] y) <float16[1] k = {26576}>
    { a = Add (x, k) b = Sub (a, k) y = Identity (b) }
    """)
    x, k = np.array([0.3, 1.7, -2.2, 40.1], np.float16), np.array(26576, np.uint16).view(np.float16)
    assert k == 2000
    assert evaluate(model, {"x": x})["y"].tobytes() == ((x + k) - k).tobytes()
    assert plan_split(ModelIndex.of(model), Profile.DEPLOYED) is None


def test_constants_of_bfloat16_are_returned_without_any_node_that_computes() -> None:
    nodes = [helper.make_node("Constant", [], ["y"], value=helper.make_tensor("v", T.BFLOAT16, [1], [1.5]))]
    actual = evaluate(Model(make_model(nodes, {}, {"y": (1,)}, {}, opset=21, elem_type=T.BFLOAT16)), {})
    assert actual["y"].tobytes() == np.array([1.5], BFLOAT16).tobytes()
