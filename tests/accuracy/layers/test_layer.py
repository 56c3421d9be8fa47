"""Layers: which nodes belong together, that every pair is in one, and that patterns for them match them alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.layered import MAX, Planned, chain, nodes_with_pairs, outputs, planned, rows, save
from support.small import make_model

from qdqtool.accuracy.layers.layer import Layer, by_reader, excluding_patterns, layers_of
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.planning.placement import Selection

WIDE = 16


def stored(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32)


def conv(x: str, weight: str, y: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node("Conv", [x, weight], [y], name=y, **attributes)


def matmul(x: str, weight: str, y: str) -> onnx.NodeProto:
    return helper.make_node("MatMul", [x, weight], [y], name=y)


def residual() -> onnx.ModelProto:
    """A block whose Add reads a Conv and its own input, then one with a Conv on both branches."""
    weights = {name: stored(WIDE, WIDE, 1, 1, seed=at) for at, name in enumerate("abcdef")}
    nodes = [
        conv("x", "a", "stem"),
        helper.make_node("Relu", ["stem"], ["r0"], name="r0"),
        conv("r0", "b", "left"),
        helper.make_node("Add", ["left", "r0"], ["sum1"], name="sum1"),
        helper.make_node("Relu", ["sum1"], ["r1"], name="r1"),
        conv("r1", "c", "inner"),
        helper.make_node("Relu", ["inner"], ["r2"], name="r2"),
        conv("r2", "d", "deep"),
        conv("r1", "e", "down"),
        helper.make_node("Add", ["down", "deep"], ["sum2"], name="sum2"),
        conv("sum2", "f", "y"),
    ]
    shape = (1, WIDE, 4, 4)
    return make_model(nodes, {"x": shape}, {"y": shape}, weights)


def attention() -> onnx.ModelProto:
    """Queries, keys and values of one tensor, their products, and the last projection, of other tensors each."""
    weights = {name: stored(WIDE, WIDE, seed=at) for at, name in enumerate("qkvo")}
    nodes = [
        matmul("x", "q", "queries"),
        matmul("x", "k", "keys"),
        helper.make_node("Transpose", ["keys"], ["turned"], name="turned", perm=[1, 0]),
        matmul("queries", "turned", "scores"),
        helper.make_node("Softmax", ["scores"], ["weights"], name="weights"),
        matmul("x", "v", "values"),
        matmul("weights", "values", "mixed"),
        matmul("mixed", "o", "y"),
    ]
    return make_model(nodes, {"x": (WIDE, WIDE)}, {"y": (WIDE, WIDE)}, weights)


def turned_weights() -> onnx.ModelProto:
    """Weights behind a Transpose, behind a Reshape, and behind a Transpose that two products read."""
    weights = {"a": stored(24, WIDE), "b": stored(24 * WIDE, seed=1), "c": stored(WIDE, WIDE, seed=2)}
    weights["shape"] = np.array([24, WIDE])
    nodes = [
        helper.make_node("Transpose", ["a"], ["at"], name="at", perm=[1, 0]),
        matmul("x", "at", "one"),
        helper.make_node("Relu", ["one"], ["r1"], name="r1"),
        helper.make_node("Reshape", ["b", "shape"], ["bt"], name="bt"),
        matmul("r1", "bt", "two"),
        helper.make_node("Relu", ["two"], ["r2"], name="r2"),
        helper.make_node("Transpose", ["c"], ["ct"], name="ct", perm=[1, 0]),
        matmul("r2", "ct", "three"),
        helper.make_node("Relu", ["three"], ["r3"], name="r3"),
        matmul("r3", "ct", "y"),
    ]
    return make_model(nodes, {"x": (4, WIDE)}, {"y": (4, WIDE)}, weights)


def shared_weight() -> onnx.ModelProto:
    """One weight that two products read, which are no layer: each of them can be switched by itself."""
    weights = {"w": stored(WIDE, WIDE), "v": stored(WIDE, WIDE, seed=1)}
    nodes = [
        matmul("x", "w", "one"),
        helper.make_node("Relu", ["one"], ["r1"], name="r1"),
        matmul("r1", "v", "two"),
        helper.make_node("Relu", ["two"], ["r2"], name="r2"),
        matmul("r2", "w", "y"),
    ]
    return make_model(nodes, {"x": (4, WIDE)}, {"y": (4, WIDE)}, weights)


def tiny() -> onnx.ModelProto:
    """A Conv, a depthwise one, and a product of so few channels that it stays float beside the first."""
    weights = {"a": stored(WIDE, WIDE, 1, 1), "b": stored(WIDE, 1, 3, 3), "c": stored(4 * WIDE, 4)}
    weights["flat"] = np.array([4, 4 * WIDE])
    nodes = [
        conv("x", "a", "wide"),
        conv("wide", "b", "deep", group=WIDE, pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["deep", "flat"], ["flattened"], name="flattened"),
        matmul("flattened", "c", "y"),
    ]
    return make_model(nodes, {"x": (1, WIDE, 4, 4)}, {"y": (4, 4)}, weights)


def _body(name: str, seed: int) -> onnx.GraphProto:
    nodes = [matmul("r", f"{name}_w", f"{name}_one"), matmul(f"{name}_one", "w", f"{name}_two")]
    for node, twin in zip(nodes, ("one", "two"), strict=True):
        node.name = twin
    output = helper.make_tensor_value_info(f"{name}_two", TensorProto.FLOAT, (4, WIDE))
    return helper.make_graph(
        nodes, name, [], [output], [numpy_helper.from_array(stored(WIDE, WIDE, seed=seed), f"{name}_w")]
    )


def branches() -> onnx.ModelProto:
    """Both bodies of an If read a tensor and a weight of the main graph; names of nodes occur in several scopes."""
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["v_one"], name="one"),
        helper.make_node("Relu", ["v_one"], ["r"], name="r"),
        helper.make_node("ReduceMax", ["x"], ["largest"], keepdims=0, name="largest"),
        helper.make_node("Less", ["largest", "limit"], ["small"], name="small"),
        helper.make_node("If", ["small"], ["f"], then_branch=_body("a", 3), else_branch=_body("b", 4), name="if"),
        matmul("f", "w", "y"),
    ]
    weights = {"v": stored(WIDE, WIDE), "w": stored(WIDE, WIDE, seed=1), "limit": np.float32(3).reshape(())}
    return make_model(nodes, {"x": (4, WIDE)}, {"y": (4, WIDE)}, weights)


def evil_names() -> onnx.ModelProto:
    """Names that are patterns, that are missing, and that another node or its output has."""
    weights = {f"w{at}": stored(WIDE, WIDE, seed=at) for at in range(8)}
    names = ["a[0]", "a0", "*", "?", "o2", "o0", "", "o7"]
    outputs_ = ["o0", "[!a]", "o2", "o3", "o4", "a*", "o6", "y"]
    nodes, last = [], "x"
    for at, (name, output) in enumerate(zip(names, outputs_, strict=True)):
        nodes.append(helper.make_node("MatMul", [last, f"w{at}"], [output], name=name))
        last = f"r{at}"
        nodes.append(helper.make_node("Relu", [output], [last]))
    nodes.pop()
    return make_model(nodes, {"x": (4, WIDE)}, {"y": (4, WIDE)}, weights)


@dataclass(frozen=True)
class Case:
    make: Callable[[], onnx.ModelProto]
    layers: list[list[str]]
    shape: tuple[int, ...] = (4, WIDE)


CASES: Mapping[str, Case] = {
    "chain": Case(chain, [[f"m{number}"] for number in range(5)]),
    "residual": Case(
        residual,
        [["stem"], ["left", "sum1"], ["inner", "down"], ["deep", "sum2"], ["y"]],
        (1, WIDE, 4, 4),
    ),
    "attention": Case(attention, [["queries", "keys", "values"], ["scores"], ["mixed"], ["y"]], (WIDE, WIDE)),
    "tiny": Case(tiny, [["wide"], ["deep"]], (1, WIDE, 4, 4)),
    "turned weights": Case(turned_weights, [["one"], ["two"], ["three", "y"]]),
    "shared weight": Case(shared_weight, [["one"], ["two"], ["y"]]),
    "branches": Case(branches, [["one"], ["y"], ["one", "one"], ["two"], ["two"]]),
    "evil names": Case(
        evil_names,
        [["a[0]"], ["a0"], ["*"], ["?"], ["o2"], ["o0"], ["MatMul -> o6"], ["o7"]],
    ),
}


@pytest.fixture(params=CASES)
def found(request: pytest.FixtureRequest, tmp_path: Path):
    case = CASES[request.param]
    save(tmp_path, case.make(), rows(case.shape))
    with planned(tmp_path) as made:
        yield case, made


def layers(made: Planned) -> tuple[Layer, ...]:
    return layers_of(by_reader(made.plan, made.index), made.index)


def labels(layer: Layer) -> list[str]:
    return [node.label for node in layer.nodes]


def test_nodes_that_one_kernel_computes_are_a_unit(found):
    case, made = found
    assert [labels(layer) for layer in layers(made)] == case.layers


def test_every_pair_is_in_one_unit_and_every_node_too(found):
    _, made = found
    got = layers(made)
    assert sorted(site for layer in got for site in layer.sites) == list(range(len(by_reader(made.plan, made.index))))
    nodes = [node for layer in got for node in layer.nodes]
    assert len(nodes) == len(set(nodes))


def test_the_plan_by_readers_gives_the_same_numbers(found):
    case, made = found
    samples = rows(case.shape, 3, seed=9)
    divided = by_reader(made.plan, made.index)
    whole, parts = (outputs(made.applied(plan), samples) for plan in (made.plan, divided))
    assert [a.tobytes() for run in whole for a in run] == [a.tobytes() for run in parts for a in run]
    floats = outputs(made.ready.proto, samples)
    assert whole[0][0].tobytes() != floats[0][0].tobytes()


def test_a_plan_by_readers_has_one_computing_node_for_each_activation(found):
    _, made = found
    for placement in by_reader(made.plan, made.index):
        assert placement.slot.uses is not None
        assert len({(use.scope, use.node) for use in placement.slot.uses}) == 1
    before, behind = (
        [(placement.slot.tensor, use, placement.params) for placement in plan for use in placement.slot.uses or ()]
        for plan in (made.plan, by_reader(made.plan, made.index))
    )
    assert before == behind


def with_pairs(made: Planned, plan: QuantPlan) -> set[tuple[str, ...]]:
    """Output names of the nodes that read a pair of a plan, through nodes that move a weight."""
    divided = by_reader(plan, made.index)
    return {node.key for layer in layers_of(divided, made.index) for node in layer.nodes}


@pytest.mark.parametrize("name", CASES)
def test_patterns_of_a_unit_leave_exactly_its_nodes_in_float(name: str, tmp_path: Path):
    case = CASES[name]
    save(tmp_path, case.make(), rows(case.shape))
    with planned(tmp_path) as made:
        got, index = layers(made), made.index
        whole = with_pairs(made, made.plan)
    chosen = [[each] for each in got] + [list(got[::2]), list(got[1:])]
    for subset in chosen if len(got) > 2 else chosen[: len(got)]:
        patterns = tuple(each for found in excluding_patterns(subset, index).values() for each in found)
        view = ModelIndex.of(made.ready).view
        matched = [node for match in Selection(nodes_to_exclude=patterns).matches(view) for node in match.nodes]
        assert sorted(matched) == sorted(node.label for layer in subset for node in layer.nodes)
        recipe = replace(MAX, selection=Selection(nodes_to_exclude=patterns))
        with planned(tmp_path, recipe) as rest:
            left = whole - with_pairs(rest, rest.plan)
            assert with_pairs(rest, rest.plan) <= whole
        assert left == {node.key for layer in subset for node in layer.nodes}
        if name not in {"branches", "evil names"}:
            kept = {label for each in got for label in labels(each)} - set(matched)
            assert nodes_with_pairs(rest.applied(rest.plan)) == kept


def test_the_leader_of_a_residual_unit_is_its_conv(tmp_path: Path):
    save(tmp_path, residual(), rows((1, WIDE, 4, 4)))
    with planned(tmp_path) as made:
        assert [layer.leader.label for layer in layers(made)] == ["stem", "left", "inner", "deep", "y"]
