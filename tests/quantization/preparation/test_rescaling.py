"""Factors moved through points change no result beyond rounding; with powers of two they change not one bit."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chains import chains
from support.small import make_model, nodes_of, run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.options import ExternalData
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from qdqtool.quantization.preparation import rescaling as module
from qdqtool.quantization.preparation.rescaling import rescale, tried_weights

LIMIT = 1e-5


def points_of(proto: onnx.ModelProto, kind: PointKind = PointKind.PRODUCT):
    index = ModelIndex.of(Model(proto))
    found, alone = find_rescaling_points(index, kind)
    return index, found, alone


def saved(model: Model, tmp_path, external=ExternalData.AUTO) -> str:
    return str(save_model(model, tmp_path / "rescaled.onnx", external_data=external).model)


def require_same(proto: onnx.ModelProto, path: str, x: np.ndarray, limit: float = LIMIT) -> None:
    """Require that a rescaled model in a file computes the same, within rounding."""
    feeds = {"x": x.astype(np.float32)}
    (before,), (after,) = run(proto, feeds), run(path, feeds)
    assert np.abs(before - after).max() <= limit * np.abs(before).max()


@pytest.mark.parametrize("powers_of_two", [False, True])
@settings(max_examples=40, deadline=None)
@given(chains(), st.integers(0, 2**20))
def test_random_factors_in_random_chains_change_outputs_by_rounding_only(tmp_path_factory, powers_of_two, proto, seed):
    """Powers of two change not one bit."""
    index, points, _ = points_of(proto)
    rng = np.random.default_rng(seed)
    exponents = {point: rng.uniform(-6, 6, point.channels) for point in points}
    factors = {point: np.exp2(np.rint(by) if powers_of_two else by) for point, by in exponents.items()}
    path = saved(rescale(index, factors).model, tmp_path_factory.mktemp("chain"))
    require_same(proto, path, rng.normal(size=(2, 3, 6, 6)), limit=0 if powers_of_two else LIMIT)


@settings(max_examples=40, deadline=None)
@given(chains())
def test_every_layer_of_a_chain_but_the_last_is_a_joint(proto):
    _, points, alone = points_of(proto)
    layers = [node.name for node in proto.graph.node if node.op_type in {"Conv", "ConvTranspose", "Gemm"}]
    assert [point.tensor.producer.label for point in points] == layers[:-1]
    assert [entry.node for entry in alone] == layers[-1:]


def branches(**changes: object) -> onnx.ModelProto:
    """x -> Conv -> Relu -> two Convs, whose sum is the output."""
    rng = np.random.default_rng(1)
    weights = {name: rng.normal(size=(4, 4, 1, 1)).astype(np.float32) for name in ("w", "u", "v")}
    nodes = nodes_of("""[first] c = Conv (x, w)  r = Relu (c)  [left] left = Conv (r, u)  [right] right = Conv (r, v)
        y = Add (left, right)""")
    for node in nodes:
        for index, name in enumerate(node.input):
            node.input[index] = str(changes.get(f"{node.name}.{name}", name))
    outputs = {"y": (1, 4, 5, 5)} | ({"r": (1, 4, 5, 5)} if changes.get("output") else {})
    return make_model(nodes, {"x": (1, 4, 5, 5)}, outputs, weights)


def reasons(proto: onnx.ModelProto) -> dict[str, str]:
    return {entry.node: entry.reason for entry in points_of(proto)[2]}


def test_a_tensor_with_several_readers_is_one_joint(tmp_path):
    index, (point,), _ = points_of(branches())
    assert [reader.weight.node.label for reader in point.readers] == ["left", "right"]
    path = saved(rescale(index, {point: np.array([1.0, 3.0, 0.2, 7.0])}).model, tmp_path)
    require_same(branches(), path, np.random.default_rng(2).normal(size=(1, 4, 5, 5)))


def test_rescaled_weights_replace_those_before_under_names_after_them(tmp_path):
    proto = branches()
    proto.graph.node[0].input.append("b")
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(4, np.float32), "b"))
    index, (point,), _ = points_of(proto)
    after = onnx.load(saved(rescale(index, {point: np.full(4, 2.0)}).model, tmp_path))
    read = [list(node.input) for node in after.graph.node if node.op_type == "Conv"]
    assert read == [["x", "w_rescaled", "b_rescaled"], ["r", "u_rescaled"], ["r", "v_rescaled"]]
    assert sorted(tensor.name for tensor in after.graph.initializer) == [f"{name}_rescaled" for name in "buvw"]


def test_what_is_left_alone_says_why():
    assert reasons(branches(output=True))["first"] == "'r' is an output of the graph"
    assert reasons(branches(**{"right.v": "u"}))["first"] == "weight 'u' is shared"
    assert reasons(branches(**{"right.v": "x"}))["first"] == "its weight is computed, not stored"
    assert reasons(branches())["left"] == "Add 'Add -> y' reads 'left', and does not commute with factors"


def test_a_clip_between_layers_is_left_alone():
    proto = branches()
    proto.graph.node[1].op_type = "Clip"
    assert reasons(proto)["first"] == "Clip 'Clip -> r' reads 'c', and does not commute with factors"


@pytest.mark.parametrize("returned", [False, True])
def test_a_reader_in_a_branch_and_a_tensor_that_a_branch_returns_block_the_joint(returned):
    """The branch reads ``r`` or returns it."""
    nodes = [] if returned else [onnx.helper.make_node("Identity", ["r"], ["i"])]
    output = onnx.helper.make_tensor_value_info("r" if returned else "i", onnx.TensorProto.FLOAT, None)
    inner = onnx.helper.make_graph(nodes, "body", [], [output])
    proto = branches()
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(True), "flag"))
    proto.graph.node.append(onnx.helper.make_node("If", ["flag"], ["z"], then_branch=inner, else_branch=inner))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    reason = "'r' is an output of the graph" if returned else "a branch or loop body reads 'r'"
    assert reasons(proto)["first"] == reason


def test_external_weights_are_rescaled_from_disk(tmp_path):
    path = save_model(Model(branches()), tmp_path / "outside.onnx", external_data=ExternalData.ALWAYS).model
    index = ModelIndex.of(load_model(path))
    (point,), _ = find_rescaling_points(index, PointKind.PRODUCT)
    result = saved(rescale(index, {point: np.array([1.0, 3.0, 0.2, 7.0])}).model, tmp_path, ExternalData.ALWAYS)
    require_same(branches(), result, np.random.default_rng(2).normal(size=(1, 4, 5, 5)))


def normalized(*, bias: bool, rank_three: bool = False) -> onnx.ModelProto:
    """x -> LayerNormalization -> two MatMuls -> sum."""
    rng = np.random.default_rng(1)
    shapes = {"u": (8, 8), "v": (8, 8), "scale": 8} | ({"shift": 8} if bias else {})
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    nodes = [
        onnx.helper.make_node("LayerNormalization", ["x", "scale", *(["shift"] if bias else [])], ["n"], name="norm"),
        onnx.helper.make_node("MatMul", ["n", "u"], ["left"]),
        onnx.helper.make_node("MatMul", ["n", "v"], ["right"]),
        onnx.helper.make_node("Add", ["left", "right"], ["y"]),
    ]
    shape = (2, 5, 8) if rank_three else (2, 8)
    return make_model(nodes, {"x": shape}, {"y": shape}, weights)


@settings(max_examples=12, deadline=None)
@given(st.booleans(), st.booleans(), st.integers(0, 2**20))
def test_normalizations_are_joints_with_the_products_behind_them(tmp_path_factory, bias, rank_three, seed):
    proto = normalized(bias=bias, rank_three=rank_three)
    index, (point,), _ = points_of(proto, PointKind.NORM)
    assert len(point.readers) == 2
    rng = np.random.default_rng(seed)
    path = saved(rescale(index, {point: np.exp2(rng.uniform(-6, 6, 8))}).model, tmp_path_factory.mktemp("norm"))
    require_same(proto, path, rng.normal(size=(2, 5, 8) if rank_three else (2, 8)))


def test_the_bias_of_a_matmul_belongs_to_it(tmp_path):
    rng = np.random.default_rng(1)
    shapes = {"u": (8, 6), "b": 6, "v": (6, 4)}
    nodes = nodes_of("m = MatMul (x, u)  a = Add (b, m)  r = Relu (a)  y = MatMul (r, v)")
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    proto = make_model(nodes, {"x": (3, 8)}, {"y": (3, 4)}, weights)
    index, (point,), _ = points_of(proto)
    assert point.tensor.name == "a"
    path = saved(rescale(index, {point: np.array([1.0, 2.0, 3.0, 0.1, 9.0, 0.5])}).model, tmp_path)
    require_same(proto, path, rng.normal(size=(3, 8)))


K, NARROW, WIDE = 6, 4, 20
RANDOM = np.random.default_rng(2)
WEIGHTS = {
    "matmul": RANDOM.normal(size=(K, NARROW)).astype(np.float32),
    "gemm": RANDOM.normal(size=(WIDE, K)).astype(np.float32),
}
AS_INPUTS_FIRST = [WEIGHTS["matmul"], WEIGHTS["gemm"].T]


def network() -> onnx.ModelProto:
    nodes = nodes_of("""n = LayerNormalization <axis = -1> (x, gamma)  a = MatMul (n, matmul)
        b = Gemm <transB = 1> (n, gemm)  y = Concat <axis = -1> (a, b)""")
    weights = {"gamma": np.ones(K, np.float32), **WEIGHTS}
    return make_model(nodes, {"x": (3, K)}, {"y": (3, NARROW + WIDE)}, weights, opset=21)


@pytest.mark.parametrize(
    ("most", "every"),
    [(K * (NARROW + WIDE), 1), (K * (NARROW + WIDE) - 1, 2), (K * (NARROW + WIDE) // 4, 4), (1, K * (NARROW + WIDE))],
)
def test_every_weight_of_a_joint_keeps_the_same_share_of_its_columns(most, every, monkeypatch):
    monkeypatch.setattr(module, "MOST_WEIGHTS", most)
    index = ModelIndex.of(Model(network()))
    ((point,), _) = find_rescaling_points(index, PointKind.NORM)
    found = tried_weights(point.readers)
    assert [each.shape[1] for each in found] == [-(-NARROW // every), -(-WIDE // every)]
    for each, whole in zip(found, AS_INPUTS_FIRST, strict=True):
        np.testing.assert_array_equal(each, whole[:, ::every])
