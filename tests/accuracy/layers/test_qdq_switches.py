"""Switches of a model with Q/DQ against models that have the pairs of one layer alone, which ONNX Runtime runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from support.layered import MAX, chain, outputs, planned, rows, save
from support.qdq import text_model
from support.small import make_model

from qdqtool.accuracy.layers.layer import by_reader, layers_of
from qdqtool.accuracy.layers.masked_runs import MaskedRuns
from qdqtool.accuracy.layers.qdq_switches import OtherConstant, QdqSwitches, add_switches
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.numerics.dtypes import Array

SAMPLES = rows(count=3)


def run(switches: QdqSwitches, on: Sequence[int], samples=SAMPLES) -> list[Array]:
    setting = {site: None for site in switches.all_float if site not in on}
    with MaskedRuns(switches, samples) as runs:
        return [next(iter(runs.run(setting, number).values())) for number in range(len(samples))]


def weights_of(proto: onnx.ModelProto):
    known = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in proto.graph.initializer}

    def weight(entry: QdqNode) -> Array | None:
        return known.get(entry.data.name.removesuffix("_quantized")) if entry.data is not None else None

    return weight


@pytest.fixture
def made(tmp_path: Path):
    save(tmp_path, chain(4), rows())
    with planned(tmp_path, MAX) as found:
        yield found


def test_each_layer_alone_is_the_model_with_its_pairs_alone(made):
    quantized = made.applied(made.plan)
    switches = add_switches(ModelIndex.of(Model(quantized)), weights_of(made.ready.proto))
    assert [layer.leader.label for layer in switches.layers] == [f"m{n}" for n in range(4)]
    assert switches.left_out == ()
    divided = by_reader(made.plan, made.index)
    theirs = {layer.leader.label: layer for layer in layers_of(divided, made.index)}
    for layer in switches.layers:
        sites = theirs[layer.leader.label].sites
        alone = made.applied(QuantPlan(tuple(each for n, each in enumerate(divided) if n in sites)))
        for found, expected in zip(run(switches, layer.sites), outputs(alone, SAMPLES), strict=True):
            np.testing.assert_array_equal(found, expected[0])


def test_all_off_is_the_float_model_and_all_on_the_quantized_one(made):
    quantized = made.applied(made.plan)
    switches = add_switches(ModelIndex.of(Model(quantized)), weights_of(made.ready.proto))
    for on, model in (((), made.ready.proto), (tuple(switches.all_float), quantized)):
        for found, expected in zip(run(switches, on), outputs(model, SAMPLES), strict=True):
            np.testing.assert_array_equal(found, expected[0])


def test_a_weight_without_a_counterpart_stays_quantized_and_is_named(made):
    quantized = made.applied(made.plan)
    switches = add_switches(ModelIndex.of(Model(quantized)), lambda _: None)
    assert len(switches.left_out) == 4
    assert all(each.endswith("the baseline has no weight that matches it") for each in switches.left_out)
    assert [len(layer.sites) for layer in switches.layers] == [1] * 4


def test_a_weight_of_another_shape_is_left_out(made):
    switches = add_switches(ModelIndex.of(Model(made.applied(made.plan))), lambda _: np.zeros((3, 3), np.float32))
    assert all("another shape" in each for each in switches.left_out)


def test_a_constant_that_the_baseline_has_otherwise_goes_with_the_product_in_front():
    model = text(opset=13)
    index = ModelIndex.of(Model(model))
    (add,) = [node for node in index.view.nodes() if node.op_type == "Add"]
    plain, stored = np.full(4, 7, np.float32), index.constant(add.input(1))
    switches = add_switches(index, lambda _: None, [OtherConstant(add, 1, stored, plain)])
    (layer,) = switches.layers
    assert (layer.leader.label, len(layer.sites)) == ("product", 2)
    sample = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}
    on, off = (run(switches, each, [sample])[0] for each in (layer.sites, ()))
    np.testing.assert_array_equal(off, np.maximum(sample["x"], 0) @ np.eye(4, dtype=np.float32) + 7)
    assert not np.array_equal(on, off)


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 23, 25])
def test_where_the_range_of_a_q_is_a_relu_the_values_without_it_have_a_relu(opset: int):
    # uint8 with zero point 0 behind a product: a quantizer took the Relu out.
    model = text(opset=opset, maker=True)
    switches = add_switches(ModelIndex.of(Model(model)), lambda _: None)
    sample = {"x": np.array([[-4, -1, 2, 3.3], [1, -2, 0, 0.123]], np.float32)}
    found = run(switches, (), [sample])[0]
    np.testing.assert_array_equal(found, np.maximum(sample["x"] @ np.eye(4, dtype=np.float32), 0))


def text(opset: int, *, maker: bool = False) -> onnx.ModelProto:
    """A product, in front of it the pair of its input; behind it an Add with a constant, or else a uint8 pair alone."""
    eye = np.eye(4, dtype=np.float32)
    scale, zero = np.array(0.1, np.float32), np.array(0, np.uint8)
    pair = [
        helper.make_node("QuantizeLinear", ["p" if maker else "r", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
    ]
    product = helper.make_node("MatMul", ["x" if maker else "d", "w"], ["p"], name="product")
    nodes = (
        [product, *pair, helper.make_node("Identity", ["d"], ["y"], name="out")]
        if maker
        else [
            helper.make_node("Relu", ["x"], ["r"], name="relu"),
            *pair,
            product,
            helper.make_node("Add", ["p", "b"], ["y"], name="add"),
        ]
    )
    stored = {"w": eye, "s": scale, "z": zero, **({} if maker else {"b": np.zeros(4, np.float32)})}
    return make_model(nodes, {"x": (2, 4)}, {"y": (2, 4)}, stored, opset=opset)


def test_a_pair_that_makes_an_output_goes_with_the_layer_in_front_and_its_readers_have_their_own():
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
        helper.make_node("QuantizeLinear", ["p", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], name="d"),
        helper.make_node("Mul", ["y", "y"], ["v"], name="square"),
    ]
    stored = {"w": np.eye(4, dtype=np.float32), "s": np.array(0.5, np.float32), "z": np.array(0, np.int8)}
    model = make_model(nodes, {"x": (2, 4)}, {"y": (2, 4), "v": (2, 4)}, stored)
    switches = add_switches(ModelIndex.of(Model(model)), lambda _: None)
    assert [layer.leader.label for layer in switches.layers] == ["product", "square"]
    x = np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    rounded = np.round(x / 0.5) * np.float32(0.5)
    with MaskedRuns(switches, [{"x": x}]) as runs:
        for off, y, v in (((), rounded, rounded), (switches.layers[0].sites, x, rounded), ((0, 1), x, x)):
            found = runs.run(dict.fromkeys(off), 0)
            np.testing.assert_array_equal(found["y"], y)
            np.testing.assert_array_equal(found["v"], v * v)


BRANCHES = """
<ir_version: 8, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] y) <bool c = {1}, float s = {0.5}, int8 z = {0}> {
    y = If (c) <
        then_branch = then () => (float[2,4] inner) {
            q = QuantizeLinear (x, s, z)
            d = DequantizeLinear (q, s, z)
            [square] inner = Mul (d, d)
        },
        else_branch = else () => (float[2,4] other) { other = Neg (x) }
    >
}
"""


def test_a_pair_in_a_branch_is_switched_by_an_input_of_the_model():
    switches = add_switches(ModelIndex.of(text_model(BRANCHES)), lambda _: None)
    (layer,) = switches.layers
    assert layer.leader.label == "square"
    sample = {"x": np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)}
    np.testing.assert_array_equal(run(switches, (), [sample])[0], sample["x"] ** 2)
    on = run(switches, layer.sites, [sample])[0]
    np.testing.assert_array_equal(on, (np.round(sample["x"] / 0.5) * np.float32(0.5)) ** 2)


def test_two_layers_that_share_a_pair_are_switched_each_by_itself():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
        helper.make_node("MatMul", ["d", "w"], ["a"], name="one"),
        helper.make_node("MatMul", ["d", "v"], ["b"], name="two"),
        helper.make_node("Concat", ["a", "b"], ["y"], name="join", axis=1),
    ]
    eye = np.eye(4, dtype=np.float32)
    stored = {"w": eye, "v": 2 * eye, "s": np.array(0.5, np.float32), "z": np.array(0, np.int8)}
    model = make_model(nodes, {"x": (2, 4)}, {"y": (2, 8)}, stored)
    switches = add_switches(ModelIndex.of(Model(model)), lambda _: None)
    assert [layer.leader.label for layer in switches.layers] == ["one", "two"]
    sample = {"x": np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)}
    rounded = np.round(sample["x"] / 0.5) * np.float32(0.5)
    found = run(switches, switches.layers[1].sites, [sample])[0]
    np.testing.assert_array_equal(found, np.concatenate([sample["x"], 2 * rounded], axis=1))
