"""Layers: which nodes belong together, their pairs and patterns, and their costs, counted by definition or by hand."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.layered import MAX, Planned, chain, nodes_with_pairs, outputs, planned, rows, save
from support.small import make_model

from qdqtool.accuracy.layers.fallback import FormatBits, fallback_shares
from qdqtool.accuracy.layers.layer import Cost, Layer, by_reader, costs_of, excluding_patterns, layers_of, shares
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
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
        residual, [["stem"], ["left", "sum1"], ["inner", "down"], ["deep", "sum2"], ["y"]], (1, WIDE, 4, 4)
    ),
    "attention": Case(attention, [["queries", "keys", "values"], ["scores"], ["mixed"], ["y"]], (WIDE, WIDE)),
    "tiny": Case(tiny, [["wide"], ["deep"]], (1, WIDE, 4, 4)),
    "turned weights": Case(turned_weights, [["one"], ["two"], ["three", "y"]]),
    "shared weight": Case(shared_weight, [["one"], ["two"], ["y"]]),
    "branches": Case(branches, [["one"], ["y"], ["one", "one"], ["two"], ["two"]]),
    "evil names": Case(evil_names, [["a[0]"], ["a0"], ["*"], ["?"], ["o2"], ["o0"], ["MatMul -> o6"], ["o7"]]),
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


# --- costs: multiply-accumulates by the definition of each operator, weights by hand ---


def cost(model: onnx.ModelProto, *wanted: str) -> Cost:
    """The cost of one layer of the nodes that make these tensors; of all nodes if none is named."""
    index = ModelIndex.of(Model(model))
    nodes = tuple(node for node in index.view.nodes() if not wanted or node.key[0] in wanted)
    return costs_of([Layer(nodes, ())], index)[0]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def places(extent: int, kernel: int, stride: int, dilation: int) -> int:
    """Positions of a kernel without padding."""
    return sum(1 for at in range(0, extent, stride) if at + dilation * (kernel - 1) < extent)


@pytest.mark.parametrize(
    ("groups", "stride", "dilation", "kernel"), [(1, 1, 1, 3), (2, 1, 1, 3), (4, 2, 1, 3), (1, 2, 2, 3), (2, 3, 1, 1)]
)
def test_a_conv_multiplies_its_weight_at_each_place(groups, stride, dilation, kernel):
    weight = zeros(8, 4 // groups, kernel, kernel)
    side = places(9, kernel, stride, dilation)
    attributes = {"group": groups, "strides": [stride] * 2, "dilations": [dilation] * 2}
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], **attributes)
    model = make_model([node], {"x": (2, 4, 9, 9)}, {"y": (2, 8, side, side)}, {"w": weight, "b": zeros(8)})
    per_place = sum(1 for _ in product(range(8), range(4 // groups), range(kernel), range(kernel)))
    assert cost(model) == Cost(2 * side * side * per_place, weight.size + 8)


@pytest.mark.parametrize(("groups", "stride", "kernel"), [(1, 1, 3), (1, 2, 2), (2, 2, 4), (4, 3, 2)])
def test_a_transposed_conv_multiplies_its_weight_with_each_element_of_its_input(groups, stride, kernel):
    weight, side = zeros(4, 8 // groups, kernel, kernel), (5 - 1) * stride + kernel
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=groups, strides=[stride] * 2)
    model = make_model([node], {"x": (2, 4, 5, 5)}, {"y": (2, 8, side, side)}, {"w": weight})
    assert cost(model) == Cost(2 * 4 * 5 * 5 * (8 // groups) * kernel * kernel, weight.size)


@pytest.mark.parametrize(("left", "right"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_a_gemm_counts_rows_columns_and_terms(left, right):
    rows, terms, columns = 3, 5, 7
    x = (terms, rows) if left else (rows, terms)
    weight = zeros(columns, terms) if right else zeros(terms, columns)
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], transA=left, transB=right)
    model = make_model([node], {"x": x}, {"y": (rows, columns)}, {"w": weight, "b": zeros(columns)})
    assert cost(model) == Cost(rows * terms * columns, terms * columns + columns)


@pytest.mark.parametrize(
    ("x", "weight", "y", "macs"),
    [
        ((4, 5), (5, 6), (4, 6), 4 * 5 * 6),
        ((2, 3, 4, 5), (5, 6), (2, 3, 4, 6), 2 * 3 * 4 * 5 * 6),
        ((2, 3, 4, 5), (2, 3, 5, 6), (2, 3, 4, 6), 2 * 3 * 4 * 5 * 6),
        ((4, 5), (3, 5, 6), (3, 4, 6), 3 * 4 * 5 * 6),
        ((5,), (5, 6), (6,), 5 * 6),
        ((4, 5), (5,), (4,), 4 * 5),
        (("N", 5), (5, 6), ("N", 6), 5 * 6),
    ],
)
@pytest.mark.parametrize("stored", [True, False])
def test_a_matmul_of_any_rank(x, weight, y, macs, stored):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    inputs = {"x": x} if stored else {"x": x, "w": weight}
    model = make_model([node], inputs, {"y": y}, {"w": zeros(*weight)} if stored else {})
    assert cost(model) == Cost(macs, int(np.prod(weight)) if stored else 0)


@pytest.mark.parametrize(
    ("equation", "weight", "y", "terms"),
    [
        ("bhd,do->bho", (5, 6), (2, 3, 6), 5),
        ("bhd,hdo->bo", (3, 5, 6), (2, 6), 15),
        ("bhd,od->bho", (6, 5), (2, 3, 6), 5),
    ],
)
def test_an_einsum_counts_all_summed_indices(equation, weight, y, terms):
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation=equation)
    model = make_model([node], {"x": (2, 3, 5)}, {"y": y}, {"w": zeros(*weight)})
    assert cost(model) == Cost(int(np.prod(y)) * terms, int(np.prod(weight)))


def test_weights_behind_other_nodes_and_nodes_without_weights_count():
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["a"]),
        helper.make_node("Add", ["a", "x"], ["y"]),
    ]
    model = make_model(nodes, {"x": (4, 6)}, {"y": (4, 6)}, {"w": zeros(6, 6)})
    assert cost(model, "a") == Cost(4 * 6 * 6, 36)
    assert cost(model, "y") == Cost(24, 0)
    assert cost(model, "a", "y") == Cost(4 * 6 * 6 + 24, 36)


def test_a_node_of_which_no_shape_is_known_costs_something():
    nodes = [
        helper.make_node("Unknown", ["x"], ["u"], domain="elsewhere"),
        helper.make_node("MatMul", ["u", "w"], ["y"]),
    ]
    model = make_model(nodes, {"x": (4, 6)}, {"y": ("a", "b")}, {"w": zeros(6, 5)})
    model.opset_import.append(helper.make_opsetid("elsewhere", 1))
    assert cost(model, "y").weights == 30
    assert cost(model, "y").macs > 0


@pytest.mark.parametrize(
    "costs",
    [
        [Cost(1, 1)],
        [Cost(0, 0), Cost(0, 0)],
        [Cost(4, 0), Cost(2, 0)],
        [Cost(0, 3), Cost(0, 5)],
        [Cost(5, 0), Cost(0, 7), Cost(1, 1)],
        [Cost(10**14, 3), Cost(1, 10**11), Cost(0, 0)],
    ],
)
def test_shares_are_means_of_three_and_add_up_to_one(costs):
    found = shares(costs)
    macs, weights = (sum(getattr(each, name) for each in costs) for name in ("macs", "weights"))
    for each, share in zip(costs, found, strict=True):
        # Of what no layer has, each has the same share.
        even = Fraction(1, len(costs))
        parts = [
            Fraction(each.macs, macs) if macs else even,
            Fraction(each.weights, weights) if weights else even,
            even,
        ]
        assert share == pytest.approx(float(sum(parts) / 3), rel=1e-12)
        assert share > 0
    assert sum(found) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("bits", "part"),
    [
        ((4, 8, 32), Fraction(4, 28)),
        ((4, 8, 16), Fraction(4, 12)),
        ((8, 8, 32), Fraction(1, 24)),
        ((16, 8, 16), Fraction(1, 2)),
    ],
)
@pytest.mark.parametrize("activations", [False, True])
def test_the_fallback_costs_the_part_of_its_additional_bits_and_a_change_of_types(bits, part, activations):
    costs = [Cost(30, 8), Cost(70, 0), Cost(100, 8)]
    quantized, fallback, unquantized = bits
    named = FormatBits(quantized=quantized, fallback=fallback, unquantized=unquantized, activations=activations)
    found = fallback_shares(costs, named)
    sizes = [(Fraction(each.macs, 200), Fraction(each.weights, 16)) for each in costs]
    change = Fraction(1, 3) if activations else Fraction(0)
    assert found == pytest.approx([float((part * (macs + weights) + change) / 3) for macs, weights in sizes])
    assert all(0 < finer < whole for finer, whole in zip(found, shares(costs), strict=True))
