"""Second moments of the inputs of products, against exact sums of the samples."""

from collections.abc import Iterable, Mapping

import numpy as np
import onnx
import pytest
from onnx import helper
from support.small import make_model, nodes_of

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot, UseRef
from qdqtool.quantization.statistics import input_moments
from qdqtool.quantization.statistics.input_moments import InputMoments
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.report import DataDescription

K = 6
Sample = Mapping[str, np.ndarray]


def feeds(*samples: Sample) -> Feeds:
    return Feeds(list(samples), DataDescription("test", len(samples), None, {}))


def whole_numbers(seed: int, *shape: int) -> np.ndarray:
    """Small enough for exact sums in float32."""
    return np.random.default_rng(seed).integers(-50, 50, shape).astype(np.float32)


def slot(tensor: str, *readers: str, scope: tuple[str, ...] = (), index: int = 1) -> Slot:
    return Slot((), tensor, tuple(UseRef(scope, (reader,), index) for reader in readers))


def moments(model: onnx.ModelProto, data: Feeds, *slots: Slot) -> dict[str, np.ndarray]:
    found = InputMoments(ModelIndex.of(Model(model)), data).of(dict.fromkeys(slots, K))
    return {each.tensor: array for each, array in found}


def exact(arrays: Iterable[np.ndarray]) -> np.ndarray:
    """The sum of ``x' x`` over the rows of all arrays, in whole numbers."""
    rows = [row for array in arrays for row in array.astype(np.int64).reshape(-1, array.shape[-1])]
    return sum((np.outer(row, row) for row in rows), np.zeros((K, K), np.int64))


def products() -> onnx.ModelProto:
    """Every form of a product that takes blocks, and two whose channels are not on the last axis."""
    nodes = nodes_of("""a = Relu (x)  y0 = MatMul (x, w)  y1 = MatMul (a, w)  y2 = Add (w, w)
        y3 = Gemm <transB = 1> (a, v)  t = Transpose <perm = [1, 0]> (u)  y4 = MatMul (x, t)
        y5 = MatMul (a, t)  y6 = Gemm <transA = 1> (x, g)
        y7 = Conv (image, k)  y8 = MatMul (words, w3)  y9 = Gemm (x, square)
        y10 = Gemm <transB = 1> (a, square)""")
    shapes = {"w": (K, 4), "v": (5, K), "u": (3, K), "g": (4, K), "k": (2, K, 1, 1), "w3": (K, 2), "square": (K, K)}
    inputs = {"x": (4, K), "image": (1, K, 4, 4), "words": (2, "n", K)}
    weights = {name: whole_numbers(9, *shape) for name, shape in shapes.items()}
    return make_model(nodes, inputs, {f"y{i}": () for i in range(11)}, weights)


def test_moments_are_the_sum_over_all_rows_of_all_samples_and_all_products_of_the_slot():
    samples = [
        {"x": whole_numbers(i, 4, K), "image": whole_numbers(i, 1, K, 4, 4), "words": whole_numbers(i, 2, i, K)}
        for i in (3, 0, 5)
    ]
    x, words = ([sample[name] for sample in samples] for name in ("x", "words"))
    a = [np.maximum(array, 0) for array in x]
    wanted = {
        slot("w", "y0", "y1"): [*x, *a],
        slot("v", "y3"): a,
        slot("u", "t", index=0): [*x, *a],
        slot("w3", "y8"): words,
        slot("square", "y10"): a,
    }
    left_out = slot("g", "y6"), slot("k", "y7"), slot("w", "y2"), Slot((), "square")
    found = moments(products(), feeds(*samples), *wanted, *left_out)
    assert list(found) == [each.tensor for each in wanted]
    for each, arrays in wanted.items():
        np.testing.assert_array_equal(found[each.tensor], exact(arrays), each.tensor)


def test_of_two_slots_of_one_matrix_each_has_the_moments_of_its_own_products():
    x = whole_numbers(1, 4, K)
    sample = {"x": x, "image": whole_numbers(1, 1, K, 4, 4), "words": whole_numbers(1, 2, 1, K)}
    slots = slot("square", "y9"), slot("square", "y10")
    found = InputMoments(ModelIndex.of(Model(products())), feeds(sample)).of(dict.fromkeys(slots, K))
    assert [(each, array.tolist()) for each, array in found] == [
        (slots[0], exact([x]).tolist()),
        (slots[1], exact([np.maximum(x, 0)]).tolist()),
    ]


BODIES = """<ir_version: 8, opset_import: ["": 17]>
g (float[2,6] x, bool flag, int64 times) => (float[2,6] y, float[2,6] z)
<float[6,6] w = {1,0,0,0,0,0, 0,1,0,0,0,0, 0,0,1,0,0,0, 0,0,0,1,0,0, 0,0,0,0,1,0, 0,0,0,0,0,1}, bool yes = {1}> {
    z = If (flag) <
        then_branch = t () => (float[2,6] r) { r = MatMul (x, w) },
        else_branch = e () => (float[2,6] s) { n = Neg (x) s = MatMul (n, w) }
    >
    y = Loop (times, yes, x) <body = l (int64 i, bool c, float[2,6] v) => (bool co, float[2,6] m) {
        co = Identity (c)
        d = Add (v, v)
        m = MatMul (d, w)
    }>
}
"""


def test_all_iterations_of_a_loop_count_and_a_branch_that_never_ran_has_none():
    x = whole_numbers(4, 2, K)
    sample = {"x": x, "flag": np.array(True), "times": np.array(3)}
    model = onnx.parser.parse_model(BODIES)
    loop, other = slot("w", "m", scope=("y.body",)), slot("w", "s", scope=("z.else_branch",))
    np.testing.assert_array_equal(moments(model, feeds(sample), loop)["w"], exact([2 * x, 4 * x, 8 * x]))
    assert moments(model, feeds(sample), other) == {}


def one_product() -> onnx.ModelProto:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    return make_model(nodes, {"x": ("n", K)}, {"y": ("n", 2)}, {"w": whole_numbers(2, K, 2)})


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e30])
def test_one_value_without_a_finite_square_leaves_the_weight_out(value):
    x = whole_numbers(5, 4, K)
    assert set(moments(one_product(), feeds({"x": x}), slot("w", "y"))) == {"w"}
    x[2, 3] = value
    assert moments(one_product(), feeds({"x": x}), slot("w", "y")) == {}


def test_a_channel_that_is_always_zero_has_zero_moments_and_inputs_that_all_are_have_none():
    x = whole_numbers(6, 4, K)
    x[:, 2] = 0
    np.testing.assert_array_equal(moments(one_product(), feeds({"x": x}), slot("w", "y"))["w"], exact([x]))
    assert moments(one_product(), feeds({"x": np.zeros_like(x)}), slot("w", "y")) == {}


def test_a_product_over_no_channels_has_none():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = make_model(nodes, {"x": (2, 0)}, {"y": (2, 3)}, {"w": np.zeros((0, 3), np.float32)})
    assert moments(model, feeds({"x": np.zeros((2, 0), np.float32)}), slot("w", "y")) == {}


ONE = K * K * 4
"""The bytes of the moments of one tensor."""


@pytest.mark.parametrize(
    ("limit", "read", "passes"),
    [
        (2 * ONE, ["a", "b"], 1),
        (2 * ONE - 1, ["a", "b"], 2),
        (1, ["a", "b"], 2),
        (input_moments.MOST_BYTES, ["a", "b"], 1),
        (ONE, ["a", "a"], 1),
        (2 * ONE, ["a", "b", "c"], 2),
        (2 * ONE, ["a", "b", "c", "d"], 2),
        (2 * ONE, ["a", "b", "c", "d", "e"], 3),
        (3 * ONE - 1, ["a", "b", "cd", "e"], 3),
        (3 * ONE, ["a", "b", "cd", "e"], 2),
        (2 * ONE, ["ab", "a", "b", "ab"], 1),
    ],
)
def test_moments_that_exceed_the_limit_take_more_passes_over_the_data(limit, read, passes, monkeypatch):
    """``read``: for each weight the inputs that it is multiplied with."""
    monkeypatch.setattr(input_moments, "MOST_BYTES", limit)
    uses = [(weight, x, f"{x}{weight}") for weight, inputs in enumerate(read) for x in inputs]
    nodes = [helper.make_node("MatMul", [x, f"w{weight}"], [y]) for weight, x, y in uses]
    weights = {f"w{weight}": whole_numbers(weight, K, 3) for weight in range(len(read))}
    names = sorted(set("".join(read)))
    model = make_model(nodes, dict.fromkeys(names, (2, K)), {y: (2, 3) for _, _, y in uses}, weights)
    samples = [{name: whole_numbers(ord(name) + number, 2, K) for name in names} for number in range(3)]
    slots = [slot(f"w{weight}", *(f"{x}{weight}" for x in inputs)) for weight, inputs in enumerate(read)]
    told: list[tuple[int, int]] = []
    asked = InputMoments(ModelIndex.of(Model(model)), feeds(*samples), lambda *done: told.append(done))
    found = {each.tensor: array for each, array in asked.of(dict.fromkeys(slots, K))}
    assert told == [(0, 3), (1, 3), (2, 3)] * passes
    for weight, inputs in enumerate(read):
        expected = exact(sample[x] for sample in samples for x in inputs)
        np.testing.assert_array_equal(found[f"w{weight}"], expected)
