"""Folded BatchNormalization computes what the operator computed, and is left alone where it cannot be folded."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from support.small import make_model, run

from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model
from qdqtool.models.transforms.batchnorm import fold_batchnorm

GATE = 1e-5
"""Largest difference, as a part of the output's absmax, that folding may make in float32 (the project's gate)."""


def norm_parameters(rng, channels, prefix="", dtype=np.float32):
    return {
        f"{prefix}scale": rng.normal(1, 0.5, channels).astype(dtype),
        f"{prefix}shift": rng.normal(size=channels).astype(dtype),
        f"{prefix}mean": rng.normal(size=channels).astype(dtype),
        f"{prefix}var": (rng.random(channels) + 0.1).astype(dtype),
    }


def norm(x, y, prefix="", **attributes):
    inputs = [x, *(f"{prefix}{name}" for name in ("scale", "shift", "mean", "var"))]
    return helper.make_node("BatchNormalization", inputs, [y], name=f"{y}.norm", **attributes)


def conv_norm(
    *, op="Conv", w=(4, 3, 3, 3), x=(1, 3, 8, 8), bias=True, channels=4, opset=17, norm_attributes=None, **attributes
):
    rng = np.random.default_rng(11)
    weights = {"w": rng.normal(size=w).astype(np.float32), **norm_parameters(rng, channels)}
    if bias:
        weights["b"] = rng.normal(size=channels).astype(np.float32)
    inputs = ["x", "w", "b"] if bias else ["x", "w"]
    nodes = [
        helper.make_node(op, inputs, ["c"], name="main", **attributes),
        norm("c", "n", **(norm_attributes or {})),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    return make_model(nodes, {"x": x}, {"y": (None,) * len(x)}, weights, opset=opset)


def folded(model, folder: Path):
    result = fold_batchnorm(Model(model))
    save_model(result.model, folder / "folded.onnx")
    saved = onnx.load(folder / "folded.onnx")
    onnx.checker.check_model(saved, full_check=True)
    return saved, result.report


def assert_equal_outputs(before, after, feeds, gate=GATE):
    for old, new in zip(run(before, feeds), run(after, feeds), strict=True):
        assert np.abs(old - new).max() <= gate * np.abs(old).max()


def feed(model, seed=0):
    rng = np.random.default_rng(seed)
    stored = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: rng.normal(size=[dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(
            helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        )
        for value in model.graph.input
        if value.name not in stored
    }


CASES = {
    "bias": {},
    "no bias": {"bias": False},
    "epsilon and momentum": {"norm_attributes": {"epsilon": 0.3, "momentum": 0.5}},
    "1-D": {"w": (4, 3, 3), "x": (2, 3, 9)},
    "3-D": {"w": (4, 3, 2, 2, 2), "x": (1, 3, 4, 4, 4)},
    "grouped": {"w": (4, 2, 3, 3), "x": (1, 4, 6, 6), "group": 2},
    "depthwise": {"w": (4, 1, 3, 3), "x": (1, 4, 6, 6), "group": 4},
    "strides and pads": {"strides": [2, 2], "pads": [1, 1, 1, 1]},
    "transposed": {"op": "ConvTranspose", "w": (3, 4, 3, 3)},
    "transposed and grouped": {"op": "ConvTranspose", "w": (6, 2, 3, 3), "x": (1, 6, 5, 5), "group": 2},
    "opset 9": {"opset": 9},
    "opset 7 with spatial": {"opset": 7, "norm_attributes": {"spatial": 1}},
    "gemm": {"op": "Gemm", "w": (6, 4), "x": (5, 6)},
    "gemm without bias": {"op": "Gemm", "w": (6, 4), "x": (5, 6), "bias": False, "opset": 11},
    "gemm with transB, alpha and beta": {
        "op": "Gemm",
        "w": (4, 6),
        "x": (5, 6),
        "transB": 1,
        "alpha": 0.5,
        "beta": -2.0,
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_outputs_stay_within_the_gate(case, tmp_path):
    model = conv_norm(**case)
    result, done = folded(model, tmp_path)
    assert [(node.node, node.into) for node in done] == [("n.norm", "main")]
    assert [node.op_type for node in result.graph.node] == [case.get("op", "Conv"), "Relu"]
    assert len(result.graph.initializer) == 2
    assert_equal_outputs(model, result, feed(model))


def test_the_arithmetic_is_float64_rounded_once(tmp_path):
    model = conv_norm()
    result, _ = folded(model, tmp_path)
    before = {tensor.name: numpy_helper.to_array(tensor).astype(object) for tensor in model.graph.initializer}
    factor = before["scale"] / np.sqrt((before["var"] + float(np.float32(1e-5))).astype(np.float64))
    weight = (before["w"] * factor.reshape(-1, 1, 1, 1)).astype(np.float64).astype(np.float32)
    bias = ((before["b"] - before["mean"]) * factor + before["shift"]).astype(np.float64).astype(np.float32)
    after = {tensor.name: numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    np.testing.assert_array_equal(after["w_folded"], weight)
    np.testing.assert_array_equal(after["b_folded"], bias)


def test_float16_is_no_less_accurate_than_before(tmp_path):
    model = conv_norm()
    wide = run(model, feed(model))[0]
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    result, done = folded(model, tmp_path)
    feeds = {name: array.astype(np.float16) for name, array in feed(model).items()}
    before, after = (np.abs(run(each, feeds)[0].astype(np.float32) - wide).max() for each in (model, result))
    assert len(done) == 1
    assert after <= 2 * before  # each of the few roundings on the way is half a unit of the same size


def test_a_float16_weight_that_would_overflow_is_left(tmp_path):
    model = conv_norm(bias=False)
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        values = np.full_like(values, 1e-7) if tensor.name == "var" else values * 1000
        tensor.CopyFrom(numpy_helper.from_array(values.astype(np.float16), tensor.name))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    assert folded(model, tmp_path)[1] == ()


def test_two_in_a_row_fold_into_one_conv(tmp_path):
    model = conv_norm()
    rng = np.random.default_rng(2)
    model.graph.node[2].op_type, model.graph.node[2].name = "BatchNormalization", "second"
    model.graph.node[2].input.extend(f"2{name}" for name in ("scale", "shift", "mean", "var"))
    model.graph.initializer.extend(
        numpy_helper.from_array(array, name) for name, array in norm_parameters(rng, 4, "2").items()
    )
    result, done = folded(model, tmp_path)
    assert [node.node for node in done] == ["n.norm", "second"]
    assert [node.op_type for node in result.graph.node] == ["Conv"]
    assert_equal_outputs(model, result, feed(model))


def test_at_most_eight_in_a_row_are_folded(tmp_path):
    model = conv_norm()
    del model.graph.node[2]
    parameters = model.graph.node[1].input[1:]
    for number in range(8):
        last = "y" if number == 7 else f"n{number}"
        inputs = [model.graph.node[-1].output[0], *parameters]
        model.graph.node.append(helper.make_node("BatchNormalization", inputs, [last], name=last))
    result, done = folded(model, tmp_path)
    assert [node.node for node in done] == ["n.norm", *(f"n{number}" for number in range(7))]
    assert [node.name for node in result.graph.node] == ["main", "y"]


@pytest.mark.parametrize(("bias", "name"), [(True, "b_folded"), (False, "w_bias_folded")])
def test_new_parameters_are_named_after_the_old_ones(bias, name, tmp_path):
    result, _ = folded(conv_norm(bias=bias), tmp_path)
    assert [tensor.name for tensor in result.graph.initializer] == ["w_folded", name]


@pytest.mark.parametrize(("name", "kept"), [("main", "main"), ("", "c")])
def test_a_node_without_a_name_takes_that_of_the_output_it_loses(name, kept, tmp_path):
    model = conv_norm()
    model.graph.node[0].name = name
    result, _ = folded(model, tmp_path)
    assert [(node.name, node.output[0]) for node in result.graph.node if node.op_type == "Conv"] == [(kept, "n")]


def two_convs_with_one_weight(second_norm):
    model = conv_norm(bias=False)
    model.graph.node.append(helper.make_node("Conv", ["x", "w"], ["d"], name="other"))
    model.graph.node.append(norm("d", "z", "2") if second_norm else helper.make_node("Relu", ["d"], ["z"]))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, (None,) * 4))
    arrays = norm_parameters(np.random.default_rng(5), 4, "2") if second_norm else {}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return model


@pytest.mark.parametrize("second_norm", [True, False])
def test_a_shared_weight_keeps_its_values_for_others(second_norm, tmp_path):
    model = two_convs_with_one_weight(second_norm)
    result, done = folded(model, tmp_path)
    assert len(done) == 1 + second_norm
    assert ("w" in [tensor.name for tensor in result.graph.initializer]) is not second_norm
    assert_equal_outputs(model, result, feed(model))


def test_parameters_that_are_graph_inputs_too_go_with_their_inputs(tmp_path):
    model = conv_norm(opset=9)
    model.ir_version = 3
    model.graph.input.extend(
        helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in model.graph.initializer
    )
    result, done = folded(model, tmp_path)
    assert len(done) == 1
    assert [value.name for value in result.graph.input] == ["x"]
    assert_equal_outputs(model, result, feed(model))


def test_parameters_behind_constant_nodes_and_chains_are_folded(tmp_path):
    model = conv_norm()
    weight = model.graph.initializer.pop(0)
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], value=weight))
    model.graph.node.insert(0, helper.make_node("Identity", ["mean"], ["mean2"]))
    model.graph.node[3].input[3] = "mean2"
    result, done = folded(model, tmp_path)
    assert len(done) == 1
    assert [node.op_type for node in result.graph.node] == ["Conv", "Relu"]
    assert_equal_outputs(model, result, feed(model))


def test_a_body_is_folded_with_weights_from_outside(tmp_path):
    inner = conv_norm()
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (None,) * 4)]
    then = helper.make_graph(inner.graph.node, "then", [], outputs)
    other = [helper.make_node("Conv", ["x", "w"], ["o"])]
    orelse = helper.make_graph(other, "else", [], [helper.make_tensor_value_info("o", TensorProto.FLOAT, (None,) * 4)])
    nodes = [helper.make_node("If", ["flag"], ["out"], then_branch=then, else_branch=orelse)]
    model = make_model(nodes, {"x": (1, 3, 8, 8)}, {"out": (None,) * 4}, {}, opset=17)
    model.graph.initializer.extend(inner.graph.initializer)
    model.graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, ()))
    result, done = folded(model, tmp_path)
    assert [node.graph for node in done] == ["out.then_branch"]
    assert [tensor.name for tensor in result.graph.initializer] == ["w"]
    for flag in (True, False):
        feeds = {"x": feed(inner)["x"], "flag": np.array(flag)}
        assert_equal_outputs(model, result, feeds)


def test_metadata_and_external_weights_stay_what_they_are(tmp_path):
    model = conv_norm()
    model.metadata_props.add(key="owner", value="us")
    model.graph.node[0].metadata_props.add(key="layer", value="first")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="m.data", size_threshold=0)
    result = fold_batchnorm(load_model(tmp_path / "m.onnx")).model
    save_model(result, tmp_path / "out.onnx")
    saved = onnx.load(tmp_path / "out.onnx")
    assert saved.metadata_props[0].value == "us"
    assert saved.graph.node[0].metadata_props[0].value == "first"
    assert_equal_outputs(onnx.load(tmp_path / "m.onnx"), saved, feed(model))


def graph_output_between(model):
    model.graph.output.append(helper.make_tensor_value_info("c", TensorProto.FLOAT, (None,) * 4))


def two_consumers(model):
    model.graph.node[2].op_type = "Add"
    model.graph.node[2].input.append("c")


def training(model):
    model.graph.node[1].attribute.append(helper.make_attribute("training_mode", 1))
    model.graph.node[1].output.extend(["m2", "v2"])


def weight_as_input(model):
    del model.graph.initializer[0]
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (4, 3, 3, 3)))


def parameter_as_input(model):
    del model.graph.initializer[1]
    model.graph.input.append(helper.make_tensor_value_info("scale", TensorProto.FLOAT, (4,)))


def computed_bias(model):
    model.graph.node.insert(0, helper.make_node("ReduceMean", ["x"], ["b0"], axes=[0, 2, 3], keepdims=0))
    model.graph.node.insert(1, helper.make_node("Concat", ["b0", "one"], ["b1"], axis=0))
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "one"))
    model.graph.node[2].input[2] = "b1"


def negative_variance(model):
    model.graph.initializer[4].CopyFrom(numpy_helper.from_array(np.full(4, -1, np.float32), "var"))


def relu_between(model):
    model.graph.node.insert(1, helper.make_node("Relu", ["c"], ["r"]))
    model.graph.node[2].input[0] = "r"


UNFOLDABLE = [
    graph_output_between,
    two_consumers,
    training,
    weight_as_input,
    parameter_as_input,
    computed_bias,
    negative_variance,
    relu_between,
]


@pytest.mark.parametrize("spoil", UNFOLDABLE)
def test_what_cannot_be_folded_is_left_as_it_is(spoil):
    model = conv_norm()
    spoil(model)
    onnx.checker.check_model(model)
    given = Model(model)
    result = fold_batchnorm(given)
    assert result.report == ()
    assert result.model is given
    assert result.model.proto.SerializeToString() == model.SerializeToString()


def test_training_outputs_of_old_opsets_are_left():
    model = conv_norm(opset=9)
    model.graph.node[1].output.extend(["m2", "v2"])
    assert fold_batchnorm(Model(model)).report == ()


def test_attributes_that_a_caller_gives_are_left():
    text = """<ir_version: 8, opset_import: ["": 17, "my": 1]>
    g (float[1,2,1,1] x) => (float[1,2,1,1] y) { y = my.Norm <eps = 0.5> (x) }
    <domain: "my", opset_import: ["": 17]>
    Norm <eps> (a) => (b) {
        w = Constant <value = float[2,2,1,1] {1,2,3,4}> ()
        v = Constant <value = float[2] {1,2}> ()
        c = Conv (a, w)
        b = BatchNormalization <epsilon: float = @eps> (c, v, v, v, v)
    }
    """
    model = parser.parse_model(text)
    onnx.checker.check_model(model)
    assert fold_batchnorm(Model(model)).report == ()


@pytest.mark.real
def test_real_models_stay_within_the_gate(real_model, tmp_path):
    source = load_model(real_model)
    result = fold_batchnorm(source)
    norms = sum(node.op_type == "BatchNormalization" for node in source.proto.graph.node)
    computed = 1 if real_model.stem.startswith("magika") else 0  # its mean and variance are computed from the input
    assert len(result.report) == norms - computed
    if result.report:
        save_model(result.model, tmp_path / "folded.onnx")
        feeds = feed(source.proto)
        assert_equal_outputs(str(real_model), str(tmp_path / "folded.onnx"), feeds)
