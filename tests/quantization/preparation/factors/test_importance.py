"""What noise in a channel does to the outputs: against runs of the model with that channel disturbed."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from support.chains import chains
from support.small import make_model, nodes_of, run

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.rescaling_points import PointKind, find_rescaling_points
from qdqtool.quantization.preparation.factors.importance import channel_importance, of_outputs
from qdqtool.quantization.preparation.rescaling import rescale


def importance_of(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    index = ModelIndex.of(Model(proto))
    return {value.name: found for value, found in channel_importance(index).items()}


def disturbed(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The energy that appears at the outputs when one value of each channel of x grows by 1, channel after channel."""
    before = run(proto, feeds)
    energies = []
    for channel in range(feeds["x"].shape[1]):
        x = feeds["x"].copy()
        x[0, channel, *[3] * (x.ndim - 2)] += 1
        after = run(proto, {"x": x})
        energies.append(sum(float(np.sum((b.astype(np.float64) - a) ** 2)) for a, b in zip(before, after, strict=True)))
    return np.array(energies)


@pytest.mark.parametrize(
    ("op", "shape", "attributes"),
    [
        ("Conv", (6, 4, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("Conv", (4, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 4}),
        ("Conv", (8, 2, 1, 1), {"group": 2}),
        ("ConvTranspose", (4, 5, 3, 3), {"pads": [1, 1, 1, 1]}),
        ("ConvTranspose", (4, 3, 3, 3), {"pads": [1, 1, 1, 1], "group": 2}),
        ("MatMul", (5, 7), {}),
        ("Gemm", (5, 7), {}),
    ],
)
def test_of_one_product_it_is_what_a_disturbance_does(op, shape, attributes):
    rng = np.random.default_rng(0)
    extents = (1, 4, 7, 7) if op.startswith("Conv") else (1, 5)
    weight = rng.normal(size=shape).astype(np.float32)
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    proto = make_model([node], {"x": extents}, {"y": (1, None, *extents[2:])}, {"w": weight})
    measured = disturbed(proto, {"x": rng.normal(size=extents).astype(np.float32)})
    assert importance_of(proto)["x"] == pytest.approx(measured, rel=1e-3)


def test_ways_to_several_outputs_add_up_and_concatenated_channels_keep_their_own():
    """x goes to y on two ways, into one half of a Concat each, and one of them is an output as well."""
    rng = np.random.default_rng(2)
    weights = {
        "a": rng.normal(size=(2, 3, 1, 1)).astype(np.float32),
        "b": rng.normal(size=(4, 3, 1, 1)).astype(np.float32),
        "c": rng.normal(size=(5, 6, 1, 1)).astype(np.float32),
    }
    nodes = nodes_of("p = Conv (x, a)  q = Conv (x, b)  r = Concat <axis = 1> (p, q)  y = Conv (r, c)")
    proto = make_model(nodes, {"x": (1, 3, 4, 4)}, {"y": (1, 5, 4, 4), "q": (1, 4, 4, 4)}, weights)
    a, b, c = (weights[name][:, :, 0, 0].astype(np.float64) ** 2 for name in "abc")
    found = importance_of(proto)
    assert found["r"] == pytest.approx(c.sum(axis=0), rel=1e-6)
    assert found["p"] == pytest.approx(c.sum(axis=0)[:2], rel=1e-6)
    assert found["q"] == pytest.approx(c.sum(axis=0)[2:] + 1, rel=1e-6)
    assert found["x"] == pytest.approx(found["p"] @ a + found["q"] @ b, rel=1e-6)


def test_a_flattened_channel_counts_with_all_of_its_values():
    rng = np.random.default_rng(3)
    weights = {"w": rng.normal(size=(4, 3, 1, 1)).astype(np.float32), "v": rng.normal(size=(36, 5)).astype(np.float32)}
    nodes = nodes_of("c = Conv (x, w)  f = Flatten (c)  y = Gemm (f, v)")
    proto = make_model(nodes, {"x": (1, 3, 3, 3)}, {"y": (1, 5)}, weights)
    assert importance_of(proto)["c"] == pytest.approx((weights["v"] ** 2).reshape(4, 9, 5).sum(axis=(1, 2)), rel=1e-5)


def test_what_cannot_be_followed_counts_alike_and_what_reaches_no_output_not_at_all():
    rng = np.random.default_rng(4)
    nodes = nodes_of("[a] a = MatMul (x, w)  [y] y = MatMul (a, a)  [dead] dead = MatMul (x, w)")
    proto = make_model(nodes, {"x": (4, 4)}, {"y": (4, 4)}, {"w": rng.normal(size=(4, 4)).astype(np.float32)})
    index = ModelIndex.of(Model(proto))
    found = channel_importance(index)
    by_name = {node.label: node for node in index.view.nodes()}
    assert len(set(of_outputs(found, by_name["a"], 4))) == 1
    assert of_outputs(found, by_name["dead"], 4).tolist() == [0.0] * 4
    assert of_outputs({}, by_name["a"], 4).tolist() == [1.0] * 4


@settings(max_examples=20, deadline=None)
@given(chains(), st.integers(0, 2**20))
def test_a_channel_that_is_divided_counts_as_much_more(proto, seed):
    """Moved factors change no output: noise in a channel divided by f does what f times that noise did before."""
    rng = np.random.default_rng(seed)
    index = ModelIndex.of(Model(proto))
    points, _ = find_rescaling_points(index, PointKind.PRODUCT)
    moved = {point: np.exp2(rng.integers(-4, 5, point.channels)).astype(np.float64) for point in points}
    before = {value.name: found for value, found in channel_importance(index).items()}
    after_index = ModelIndex.of(rescale(index, moved).model)
    after = {value.name: found for value, found in channel_importance(after_index).items()}
    for point, by in moved.items():
        name = point.tensor.name
        assert after[name] == pytest.approx(before[name] * by**2, rel=1e-5)
