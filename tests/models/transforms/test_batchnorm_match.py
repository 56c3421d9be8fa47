"""Of the BatchNormalization nodes of a model, those are found whose folding ONNX Runtime cannot tell, and no others."""

from fractions import Fraction

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.small import make_model

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.batchnorm import ChannelAffine, Match, Matcher, folded_bias, folded_weight

PARAMETERS = ("scale", "shift", "mean", "var")


def norm_model(
    op: str = "Conv",
    shape: tuple[int, ...] = (4, 3, 1, 1),
    dtype: type = np.float32,
    opset: int = 17,
    **attributes: object,
) -> onnx.ModelProto:
    """x -> ``op`` with a weight and a bias -> BatchNormalization of four channels -> y."""
    stored = {"w": np.ones(shape), "b": np.arange(4.0), **{name: np.arange(4.0) + 1 for name in PARAMETERS}}
    nodes = [
        helper.make_node(op, ["x", "w", "b"], ["c"], name="main", **attributes),
        helper.make_node("BatchNormalization", ["c", *PARAMETERS], ["y"], name="norm"),
    ]
    arrays = {name: array.astype(dtype) for name, array in stored.items()}
    elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return make_model(nodes, {"x": (1, 3, 5, 5)}, {"y": (1, 4, 5, 5)}, arrays, opset=opset, elem_type=elem_type)


def matches(model: onnx.ModelProto) -> list[Match]:
    return list(Matcher(ModelIndex.of(Model(model))).matches())


def store(model: onnx.ModelProto, name: str, array: np.ndarray) -> None:
    tensor = next(each for each in model.graph.initializer if each.name == name)
    tensor.CopyFrom(numpy_helper.from_array(array, name))


LAYOUTS = {
    "Conv": (norm_model(), 0, 1),
    "grouped Conv": (norm_model(group=3, shape=(4, 1, 1, 1)), 0, 1),
    "ConvTranspose": (norm_model("ConvTranspose", (3, 4, 1, 1)), 1, 1),
    "grouped ConvTranspose": (norm_model("ConvTranspose", (6, 2, 1, 1), group=2), 1, 2),
    "Gemm": (norm_model("Gemm", (3, 4)), 1, 1),
    "transposed Gemm": (norm_model("Gemm", (4, 3), transB=1), 0, 1),
    "double": (norm_model(dtype=np.float64), 0, 1),
    "float16": (norm_model(dtype=np.float16), 0, 1),
}


@pytest.mark.parametrize(("model", "axis", "groups"), LAYOUTS.values(), ids=list(LAYOUTS))
def test_a_match_holds_the_channels_and_the_folded_bias(model, axis, groups):
    (match,) = matches(model)
    assert (match.norm.label, match.node.label) == ("norm", "main")
    assert (match.axis, match.groups, match.affine.channels) == (axis, groups, 4)
    values = np.arange(4.0) + 1
    factor = values / np.sqrt(values + 1e-5)
    np.testing.assert_allclose(match.affine.factor, factor, rtol=1e-9)
    np.testing.assert_allclose(match.bias, (np.arange(4.0) - values) * factor + values, rtol=1e-6)


@pytest.mark.parametrize("beta", [0.5, -2.0, 1.0])
def test_the_bias_of_a_gemm_is_divided_by_its_factor(beta):
    (match,) = matches(norm_model("Gemm", (3, 4), beta=beta))
    values = np.arange(4.0) + 1
    np.testing.assert_allclose(
        beta * match.bias, (beta * np.arange(4.0) - values) * match.affine.factor + values, rtol=1e-12
    )


def test_a_gemm_that_ignores_its_bias_is_left():
    assert matches(norm_model("Gemm", (3, 4), beta=0.0)) == []


@pytest.mark.parametrize(
    ("opset", "attributes", "folds"),
    [
        (6, {}, False),
        (6, {"is_test": 0}, False),
        (6, {"is_test": 1}, True),
        (6, {"is_test": 1, "spatial": 0}, False),
        (7, {}, True),
        (8, {"spatial": 0}, False),
        (8, {"spatial": 1}, True),
        (9, {}, True),
        (9, {"spatial": 0}, True),
        (14, {"training_mode": 1}, False),
        (14, {"training_mode": 0}, True),
    ],
)
def test_the_mode_follows_the_opset(opset, attributes, folds):
    model = norm_model(opset=opset)
    model.graph.node[1].attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())
    assert len(matches(model)) == folds


def omitted_outputs(model):
    model.graph.node[1].output.extend(["", ""])


def no_bias_name(model):
    model.graph.node[0].input[2] = ""


def bias_of_one(model):
    store(model, "b", np.ones(1, np.float32))


def other_input(model):
    """Another layer that is not folded, in front."""
    model.graph.node.insert(0, helper.make_node("BatchNormalization", ["x", *PARAMETERS], ["z"]))


FOLDED = [omitted_outputs, no_bias_name, other_input]


@pytest.mark.parametrize("change", FOLDED)
def test_what_does_not_matter_does_not_hinder(change):
    model = norm_model()
    change(model)
    assert [match.norm.label for match in matches(model)] == ["norm"]


def mean_returned(model):
    model.graph.node[1].output.extend(["", "saved"])


def running_mean_returned(model):
    model.graph.node[1].output.append("running")


def matrix_parameters(model):
    for name in PARAMETERS:
        store(model, name, np.ones((4, 1), np.float32))


def parameter_of_another_length(model):
    store(model, "var", np.ones(5, np.float32))


def other_channels(model):
    for name in PARAMETERS:
        store(model, name, np.ones(3, np.float32))
    store(model, "b", np.ones(3, np.float32))


def one_channel(model):
    for name in PARAMETERS:
        store(model, name, np.ones(1, np.float32))


def weight_of_rank_one(model):
    store(model, "w", np.ones(4, np.float32))


def weight_of_integers(model):
    store(model, "w", np.ones((4, 3, 1, 1), np.int32))


def infinite_bias(model):
    store(model, "b", np.array([0, 1, np.inf, 3], np.float32))


def infinite_mean(model):
    store(model, "mean", np.array([0, 1, np.inf, 3], np.float32))


def undefined_shift(model):
    store(model, "shift", np.array([0, np.nan, 1, 3], np.float32))


def variance_of_minus_epsilon(model):
    model.graph.node[1].attribute.append(helper.make_attribute("epsilon", 0.5))
    store(model, "var", np.array([1, 1, -0.5, 1], np.float32))


def no_producer(model):
    model.graph.node[1].input[0] = "x"


def no_data(model):
    model.graph.node[1].input[0] = ""


def no_product(model):
    model.graph.node[0].op_type = "Max"


def product_without_a_weight_for_channels(model):
    model.graph.node[0].op_type = "MatMul"


def output_of_the_graph(model):
    model.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, None))


def second_reader(model):
    model.graph.node.append(helper.make_node("Relu", ["c"], ["z"]))


def second_output(model):
    model.graph.node[0].output.append("more")


def other_operator(model):
    model.graph.node[1].op_type = "LpNormalization"


def other_domain(model):
    model.graph.node[1].domain = "com.example"


LEFT = [
    *(
        mean_returned,
        running_mean_returned,
        matrix_parameters,
        parameter_of_another_length,
        other_channels,
        one_channel,
    ),
    *(weight_of_rank_one, weight_of_integers, infinite_bias, infinite_mean, undefined_shift, variance_of_minus_epsilon),
    *(no_producer, no_data, no_product, product_without_a_weight_for_channels, output_of_the_graph, second_reader),
    *(second_output, other_operator, other_domain),
]


@pytest.mark.parametrize("spoil", LEFT)
def test_what_would_change_the_result_is_left(spoil):
    model = norm_model()
    spoil(model)
    assert matches(model) == []


@pytest.mark.parametrize("index", range(1, 5))
def test_a_parameter_that_is_missing_or_computed_hinders(index):
    model = norm_model()
    model.graph.node[1].input[index] = ""
    assert matches(model) == []
    model.graph.node[1].input[index] = "x"
    assert matches(model) == []


def test_a_weight_of_rank_one_hinders_a_transposed_convolution_too():
    assert matches(norm_model("ConvTranspose", (4,))) == []


def test_a_product_with_an_attribute_of_the_caller_is_left():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[1,2,1,1] x) => (float[1,2,1,1] y) { y = my.Layer <count = 1> (x) }
    <domain: "my", opset_import: ["": 17]>
    Layer <count> (a) => (b) {
        w = Constant <value = float[2,2,1,1] {1,2,3,4}> ()
        v = Constant <value = float[2] {1,2}> ()
        c = Conv <group: int = @count> (a, w)
        b = BatchNormalization (c, v, v, v, v)
    }
    """
    assert matches(onnx.parser.parse_model(text)) == []
    assert len(matches(onnx.parser.parse_model(text.replace("<group: int = @count>", "")))) == 1


@pytest.mark.parametrize(("largest", "folds"), [(65504.0, True), (65536.0, False), (-65504.0, True), (-65536.0, False)])
def test_float16_folds_up_to_its_largest_value(largest, folds):
    model = norm_model(dtype=np.float16)
    model.graph.node[1].attribute.append(helper.make_attribute("epsilon", 0.0))
    for name in PARAMETERS:
        store(model, name, np.ones(4, np.float16))
    scale = 2.0 if abs(largest) == 65536.0 else 1.0
    store(model, "scale", np.full(4, scale, np.float16))
    store(model, "w", np.full((4, 3, 1, 1), largest / scale, np.float16))
    assert len(matches(model)) == folds


def test_a_wide_type_is_not_asked_for_its_range():
    model = norm_model()
    store(model, "w", np.full((4, 3, 1, 1), 1e6, np.float32))
    assert len(matches(model)) == 1


def test_a_float16_weight_without_elements_fits():
    model = norm_model(dtype=np.float16)
    store(model, "w", np.ones((4, 0, 1, 1), np.float16))
    assert len(matches(model)) == 1


def test_the_producer_must_be_of_the_same_scope():
    model = norm_model()
    norm = model.graph.node.pop()
    info = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    branch = helper.make_graph([norm], "branch", [], [info])
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["o"])],
        "other",
        [],
        [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)],
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array(True), "flag"))
    model.graph.node.append(helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=other))
    assert matches(model) == []


def test_a_matmul_whose_channels_are_on_its_last_axis_is_left():
    model = norm_model("MatMul", (3, 4))
    del model.graph.node[0].input[2]
    assert matches(model) == []


# Folded weights and biases agree with BatchNormalization of exact rationals, applied behind a product.


SMALL = st.integers(-8, 8)
SQUARES = st.sampled_from([1, 4, 16, 0.25])


def affine(scale, shift, mean, var, epsilon=0.0):
    return ChannelAffine.of(tuple(np.array(each, np.float32) for each in (scale, shift, mean, var)), epsilon)


@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SQUARES, SMALL), min_size=1, max_size=5), st.sampled_from([1, 2, -0.5]))
def test_the_folded_bias_is_exact_where_the_factors_are(channels, beta):
    scale, shift, mean, var, bias = zip(*channels, strict=True)
    found = folded_bias(np.array(bias, np.float32), affine(scale, shift, mean, var), beta)
    for index, (s, b, m, v, before) in enumerate(channels):
        normalized = (Fraction(beta) * before - m) * Fraction(s) / Fraction(np.sqrt(v)) + b
        assert Fraction(float(found[index])) * Fraction(beta) == normalized


@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SQUARES), min_size=1, max_size=5))
def test_a_missing_bias_is_zero(channels):
    function = affine(*zip(*channels, strict=True))
    zeros = np.zeros(len(channels), np.float32)
    assert np.array_equal(folded_bias(None, function), folded_bias(zeros, function))


def test_the_bias_has_no_factor_unless_one_is_given():
    function = affine([3.0], [1.0], [2.0], [1.0])
    assert folded_bias(np.array([4.0]), function).tolist() == [(4 - 2) * 3 + 1]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_each_weight_is_multiplied_by_the_factor_of_its_channel(groups, outputs, inputs, transposed):
    """A Conv has its output channels on axis 0, a ConvTranspose those of one group on axis 1."""
    shape = (groups * inputs, outputs, 2) if transposed else (groups * outputs, inputs, 2)
    weight = np.arange(1.0, np.prod(shape) + 1).reshape(shape).astype(np.float32)
    count = groups * outputs
    factors = np.arange(1.0, count + 1)
    function = affine(factors, np.zeros(count), np.zeros(count), np.ones(count))
    found = folded_weight(weight, function, 1, groups) if transposed else folded_weight(weight, function, 0)
    assert (found.shape, found.dtype) == (shape, np.float64)
    for place in np.ndindex(*shape):
        channel = (place[0] // inputs) * outputs + place[1] if transposed else place[0]
        assert found[place] == weight[place] * factors[channel]


def test_epsilon_is_added_to_the_variance():
    function = affine([3.0], [1.0], [2.0], [1.0], 3.0)
    assert (function.factor.tolist(), function.mean.tolist(), function.shift.tolist()) == ([1.5], [2.0], [1.0])
    assert function.channels == 1


@pytest.mark.parametrize("position", range(4))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_no_function(position, value):
    parameters = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
    parameters[position][1] = value
    if position == 3 and value == np.inf:
        assert affine(*parameters).factor.tolist() == [1.0, 0.0]
    else:
        assert affine(*parameters) is None


@pytest.mark.parametrize("position", range(4))
def test_parameters_of_different_lengths_are_no_function(position):
    parameters = [[1.0, 2.0]] * 4
    parameters[position] = [1.0]
    assert affine(*parameters) is None


@pytest.mark.parametrize("values", [1.0, [[1.0, 2.0]]])
def test_parameters_that_are_no_vectors_are_no_function(values):
    assert affine(*[values] * 4) is None
