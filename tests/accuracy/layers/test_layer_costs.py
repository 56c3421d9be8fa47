"""Costs of layers: multiply-accumulates counted by running the definition of each operator, weights by hand."""

from fractions import Fraction
from itertools import product

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model

from qdqtool.accuracy.layers.fallback import FormatBits, fallback_shares
from qdqtool.accuracy.layers.layer import Cost, Layer, costs_of, shares
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model


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
