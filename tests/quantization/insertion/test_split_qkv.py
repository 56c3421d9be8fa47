"""One product for queries, keys and values becomes three: where, to what effect in the engine, and with equal bits."""

import io

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from rich.console import Console
from support.engine_models import Net
from support.joint_attention import BATCH, CUTS, HEAD, WIDTH, gather, joint_attention, split, with_gemm
from support.layer_dump import kernels_of, multiplied_types
from support.placed import place
from support.qdq import text_model

from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.save import save_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.options import WeightStorage
from qdqtool.quantization.insertion.split_qkv import is_fused_qkv, separate_like, separate_projections
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.placement import Selection
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.reports.text.quantize import render
from qdqtool.samples.request import RandomData

CODES = {"int8": "Int8", "float8e4m3fn": "FP8"}

FORMS = {
    **{name: {"cut": cut} for name, cut in CUTS.items()},
    "transposed weight": {"transposed": True},
    "gemm": {"project": with_gemm},
    "gemm with a transposed weight": {"project": with_gemm, "transposed": True},
    "gemm with a scalar bias": {"project": with_gemm, "bias": ()},
    "gemm with a bias of rank 2": {"project": with_gemm, "bias": (1, 3 * WIDTH)},
}


def separated(placed, folder, target="tensorrt"):
    """The model after separation as it is written, and the products that were cut."""
    result = separate_projections(Model(placed), target)
    save_model(result.model, folder / "separated.onnx")
    return onnx.load(folder / "separated.onnx"), result.report


def outputs(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.random.default_rng(5).normal(size=BATCH["x"]).astype(np.float32)})[0]


def stored(model):
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def untouched(placed):
    return separate_projections(Model(placed), "tensorrt") == Transformed(Model(placed), ())


@pytest.mark.parametrize("form", FORMS)
def test_three_products_compute_what_one_did(form, tmp_path):
    placed = place(joint_attention(**FORMS[form]), tmp_path)
    result, names = separated(placed, tmp_path)
    onnx.checker.check_model(result, full_check=True)
    assert names == (f"all.{'Gemm' if form.startswith('gemm') else 'MatMul'}",)
    np.testing.assert_array_equal(outputs(result), outputs(placed))


def test_codes_and_scales_are_the_same_in_three_parts(tmp_path):
    placed = place(joint_attention(), tmp_path)
    result, _ = separated(placed, tmp_path)
    (whole,) = (node for node in placed.graph.node if node.input[0] == "w_quantized")
    parts = [node for node in result.graph.node if node.input[0].startswith("w_quantized")]
    assert [node.op_type for node in parts] == ["DequantizeLinear"] * 3
    for index, axis in ((0, 1), (1, 0), (2, 0)):
        pieces = [stored(result)[node.input[index]] for node in parts]
        assert [piece.shape[axis] for piece in pieces] == [WIDTH] * 3
        np.testing.assert_array_equal(np.concatenate(pieces, axis), stored(placed)[whole.input[index]])
    assert "w_quantized" not in stored(result)


@pytest.mark.builder
@pytest.mark.parametrize("number_format", CODES)
@pytest.mark.parametrize("form", [*CUTS, "transposed weight", "gemm"])
def test_one_product_runs_in_float_and_three_run_in_one_quantized_kernel(form, number_format, oracle, tmp_path):
    placed = place(joint_attention(**FORMS[form]), tmp_path, number_format=number_format)
    result, (name,) = separated(placed, tmp_path)
    before, after = (oracle.judge(model, (89,)).layers for model in (placed, result))
    assert kernels_of(before, name) == []  # a Cast, a Mul and a float product in a kernel of their own
    assert multiplied_types(after, name) == {CODES[number_format]}
    (kernel,) = kernels_of(after, name)
    assert kernels_of(after, f"{name}_part") == kernels_of(after, f"{name}_part_1") == [kernel]


@pytest.mark.builder
def test_a_product_of_uneven_parts_runs_quantized_as_it_is(oracle, tmp_path):
    assert multiplied_types(oracle.judge(place(grouped(), tmp_path)).layers, "all.MatMul") == {"Int8"}


@pytest.mark.builder
@pytest.mark.parametrize("mode", ["int8", "fp8"])
def test_they_run_quantized_in_a_model_of_half_precision_too(mode, oracle, tmp_path):
    onnx.save(joint_attention(gather), tmp_path / "m.onnx")
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode, high_precision=HighPrecision.FP16))
    report = quantize_model(tmp_path / "m.onnx", RandomData(samples=2), tmp_path / "q.onnx", options)
    assert report.separated == ("all.MatMul",)
    layers = oracle.judge(onnx.load(tmp_path / "q.onnx"), (89,)).layers
    assert multiplied_types(layers, "all.MatMul") == {"Int8" if mode == "int8" else "FP8"}


@pytest.mark.parametrize("weights", WeightStorage)
def test_quantize_separates_and_says_so(weights, tmp_path):
    onnx.save(joint_attention(), tmp_path / "m.onnx")
    options = QuantizeOptions(weights=weights)
    report = quantize_model(tmp_path / "m.onnx", RandomData(samples=2), tmp_path / "q.onnx", options)
    assert report.separated == ("all.MatMul",)
    assert [finding.name for finding in report.findings] == ["numbers.random-calibration"]
    names = [node.name for node in onnx.load(tmp_path / "q.onnx").graph.node if node.name.startswith("all.MatMul")]
    assert sorted(names) == ["all.MatMul", "all.MatMul_Concat", "all.MatMul_part", "all.MatMul_part_1"]
    printed = Console(record=True, width=200, file=io.StringIO())
    render(report, printed)
    assert "1 product for queries, keys and values split into three products each" in printed.export_text()


@pytest.mark.parametrize("form", ["split", "transposed weight", "gemm"])
def test_check_compares_the_weights_part_for_part(form, tmp_path):
    onnx.save(joint_attention(**FORMS[form]), tmp_path / "m.onnx")
    quantize_model(tmp_path / "m.onnx", RandomData(samples=2), tmp_path / "q.onnx")
    report = check_model(tmp_path / "q.onnx", baseline=tmp_path / "m.onnx")
    assert report.not_observed == ()
    assert report.passed
    spoilt = onnx.load(tmp_path / "q.onnx")
    codes = next(tensor for tensor in spoilt.graph.initializer if tensor.name == "w_quantized_part_1")
    codes.raw_data = bytes(value ^ 4 for value in codes.raw_data)
    onnx.save(spoilt, tmp_path / "q.onnx")
    report = check_model(tmp_path / "q.onnx", baseline=tmp_path / "m.onnx")
    assert [gate.name for gate in report.gates if not gate.passed] == ["weights"]


def in_a_branch():
    """The attention in one branch of an If; the other gives ``x`` as it is."""
    then = joint_attention().graph
    del then.input[:]
    passed = helper.make_graph([helper.make_node("Identity", ["x"], ["same"])], "else", [], [])
    passed.output.add().CopyFrom(helper.make_tensor_value_info("same", onnx.TensorProto.FLOAT, BATCH["x"]))
    branches = {"then_branch": then, "else_branch": passed}
    inputs = [
        helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, BATCH["x"]),
        helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []),
    ]
    result = helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, BATCH["x"])
    graph = helper.make_graph([helper.make_node("If", ["flag"], ["z"], "if", **branches)], "g", inputs, [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_products_in_a_branch_are_cut_there(tmp_path):
    result, names = separated(place(in_a_branch(), tmp_path), tmp_path)
    onnx.checker.check_model(result, full_check=True)
    assert names == ("all.MatMul",)
    branch = next(each.g for each in result.graph.node[-1].attribute if each.name == "then_branch")
    cut = [node.output[0] for node in branch.node if node.name.startswith("all.MatMul")]
    assert cut == ["all_part", "all_part_1", "all_part_2", "all"]


def test_a_product_that_stays_float_stays_one(tmp_path):
    onnx.save(joint_attention(), tmp_path / "m.onnx")
    options = QuantizeOptions(recipe=Recipe(selection=Selection(nodes_to_exclude=("all.MatMul",))))
    assert quantize_model(tmp_path / "m.onnx", RandomData(samples=2), tmp_path / "q.onnx", options).separated == ()


def test_other_targets_keep_one_product(tmp_path):
    placed = place(joint_attention(), tmp_path)
    assert separate_projections(Model(placed), "ort-cpu") == Transformed(Model(placed), ())


def gated():
    """Three equal parts that no attention reads."""
    net = Net(17)
    net.op("MatMul", ["x", net.float_weight("w", (WIDTH, 3 * WIDTH))], "all")
    net.nodes.append(helper.make_node("Split", ["all"], ["a", "b", "c"], name="cut", axis=-1))
    net.op("Mul", [net.op("Mul", ["a", "b"], "ab"), "c"], "abc")
    net.op("MatMul", ["abc", net.float_weight("wo", (WIDTH, WIDTH))], "y")
    return net.model(BATCH)


def grouped():
    """Keys and values of one head that four heads of queries share: TensorRT leaves such products alone."""
    return joint_attention(lambda net, whole: split(net, whole, (4, 1, 1)), width=6 * HEAD)


def computed_bias():
    """A Gemm whose bias is not stored."""
    model = joint_attention(project=with_gemm)
    (gemm,) = (node for node in model.graph.node if node.op_type == "Gemm")
    model.graph.node.insert(0, helper.make_node("Exp", ["bias"], ["grown"], "grow"))
    gemm.input[2] = "grown"
    return model


def batched():
    """A weight of rank 3, behind a Transpose."""
    model = joint_attention(transposed=True)
    (transpose,) = (node for node in model.graph.node if node.output[0] == "wt")
    (weight,) = (tensor for tensor in model.graph.initializer if tensor.name == "w")
    weight.dims.insert(0, 1)
    transpose.attribute[0].ints[:] = [0, 2, 1]
    return model


LEFT = {"batched": batched(), "gated": gated(), "grouped": grouped(), "computed bias": computed_bias()}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_alone(name, tmp_path):
    assert untouched(place(LEFT[name], tmp_path))


def like(quantized, baseline, folder):
    """The float model, written, after it was cut like the quantized one, and the products that were cut."""
    result = separate_like(Model(quantized), Model(baseline))
    save_model(result.model, folder / "like.onnx")
    return onnx.load(folder / "like.onnx"), result.report


@pytest.mark.parametrize(("form", "axis"), [("split", 1), ("transposed weight", 0), ("gemm with a scalar bias", 1)])
def test_a_float_model_is_cut_like_its_quantized_one(form, axis, tmp_path):
    float_model = joint_attention(**FORMS[form])
    quantized, names = separated(place(float_model, tmp_path), tmp_path)
    result, cut = like(quantized, float_model, tmp_path)
    assert cut == names
    (joined,) = (node for node in result.graph.node if node.output[0] == "all")
    assert (joined.op_type, list(joined.input)) == ("Concat", ["all_part", "all_part_1", "all_part_2"])
    assert [attribute.i for attribute in joined.attribute if attribute.name == "axis"] == [-1]
    pieces = [stored(result)[name] for name in ("w_part", "w_part_1", "w_part_2")]
    np.testing.assert_array_equal(np.concatenate(pieces, axis), stored(float_model)["w"])
    assert "w" not in stored(result)
    assert ("bias" in stored(result)) == (form != "gemm")
    np.testing.assert_array_equal(outputs(result), outputs(float_model))


@pytest.mark.parametrize("spoil", ["operator", "fewer", "name", "producer"])
def test_only_a_concat_of_three_parts_says_that_a_product_was_cut(spoil, tmp_path):
    float_model = joint_attention()
    quantized, _ = separated(place(float_model, tmp_path), tmp_path)
    (joined,) = (node for node in quantized.graph.node if node.output[0] == "all")
    match spoil:
        case "operator":
            joined.op_type = "Sum"
        case "fewer":
            del joined.input[2]
        case "name":
            joined.input[1] = "x"
        case "producer":
            (maker,) = (node for node in quantized.graph.node if node.output[0] == "all_part_1")
            maker.op_type = "Add"
    assert like(quantized, float_model, tmp_path)[1] == ()


@pytest.mark.parametrize("scales", [1, WIDTH])
def test_one_scale_and_scales_along_the_inputs_serve_all_parts(scales, tmp_path):
    placed = place(joint_attention(), tmp_path)
    for tensor in placed.graph.initializer:
        if tensor.name in {"w_scale", "w_zero_point"}:
            array = onnx.numpy_helper.to_array(tensor)[:scales].copy()
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    if scales > 1:
        (whole,) = (node for node in placed.graph.node if node.input[0] == "w_quantized")
        whole.attribute[0].i = -2
    result, _ = separated(placed, tmp_path)
    parts = [node for node in result.graph.node if node.input[0].startswith("w_quantized_part")]
    assert [list(node.input[1:]) for node in parts] == [["w_scale", "w_zero_point"]] * 3
    np.testing.assert_array_equal(outputs(result), outputs(placed))


def test_a_product_with_one_quantized_operand_stays_one(tmp_path):
    placed = place(joint_attention(), tmp_path)
    (product,) = (node for node in placed.graph.node if node.name == "all.MatMul")
    product.input[0] = "x"
    assert untouched(placed)


STORED = """<int64[3] thirds = {6, 6, 6}, int64[3] uneven = {4, 8, 6}, int64[1] o = {0}, int64[1] l = {2},
    int64[1] six = {6}, int64[1] twelve = {12}, int64[1] end = {18}, int64 zero = {0}, int64 one = {1}, int64 two = {2},
    int64[4] apart = {6, 3, 6, 1}, float f = {0.5}, int8 z = {0}>"""


def fused(body: str, *, opset: int = 18) -> bool:
    """Whether the first product of a graph is one for all three; its result is called ``all``."""
    text = f"""<ir_version: 10, opset_import: ["": {opset}, "other": 1]>
        g (float[6,6] x, float[6,18] w, float[6,6] p, float[6,6] q, int64[3] given) => (float y) {STORED}
        {{ all = MatMul(x, w) {body} }}"""
    index = ModelIndex.of(text_model(text))
    return is_fused_qkv(next(index.view.nodes()), index.constants)


SPLIT = "a, b, c = Split<axis = -1, num_outputs = 3>(all)"
USED = "t = Transpose(b)  s = MatMul(a, t)  y = MatMul(s, c)"
SLICES = "a = Slice(all, o, six, l)  b = Slice(all, six, twelve, l)  c = Slice(all, twelve, end, l)"

FUSED = {
    "a Split": f"{SPLIT}  {USED}",
    "a Split of given lengths": f"a, b, c = Split<axis = -1>(all, thirds)  {USED}",
    "Slices": f"{SLICES}  {USED}",
    "Gathers behind a Reshape": f"""r = Reshape(all, apart)  a = Gather<axis = 1>(r, zero)  b = Gather<axis = 1>(r, one)
        c = Gather<axis = 1>(r, two)  {USED}""",
    "a bias and a scale in between": """d = Add(all, f)  a, b, c = Split<axis = -1, num_outputs = 3>(d)  m = Mul(a, f)
        n = Div(b, f)  t = Transpose(n)  e = Neg(m)  s = MatMul(e, t)  v = Sub(c, f)  y = MatMul(s, v)""",
    "pairs in between": f"""i = QuantizeLinear(all, f, z)  j = DequantizeLinear(i, f, z)
        a, b, c = Split<axis = -1, num_outputs = 3>(j)  {USED}""",
    "a Cast and a Concat in between": f"{SPLIT}  d = Cast<to = 1>(a)  e = Concat<axis = 0>(d, p)  t = Transpose(b)"
    "  s = MatMul(e, t)  y = MatMul(s, c)",
    "two attentions": f"{SPLIT}  {USED}  s2 = MatMul(a, t)  y2 = MatMul(s2, c)",
}

NOT_FUSED = {
    "nothing behind": "y = Exp(all)",
    "no attention": f"{SPLIT}  d = Mul(a, b)  y = Mul(d, c)",
    "one operand of each": f"{SPLIT}  s = MatMul(a, p)  y = MatMul(s, q)  v = MatMul(b, q)",
    "no values": f"{SPLIT}  t = Transpose(b)  y = MatMul(a, t)",
    "two parts": "a, b = Split<axis = -1, num_outputs = 2>(all)  t = Transpose(b)  s = MatMul(a, t)  y = MatMul(s, b)",
    "two parts, by slices": """a = Slice(all, o, six, l)  b = Slice(all, six, twelve, l)  t = Transpose(b)
        s = MatMul(a, t)  y = MatMul(s, b)""",
    "four parts, by slices": f"{SLICES}  d = Slice(all, o, twelve, l)  {USED}",
    "another operator with three outputs": """a = Slice(all, o, six, l)  b = Slice(all, six, twelve, l)
        t = Transpose(b)  s = MatMul(a, t)  y = MatMul(s, b)  c, d, e = other.Three(all)""",
    "uneven parts": f"a, b, c = Split<axis = -1>(all, uneven)  {USED}",
    "lengths that are not known": f"a, b, c = Split<axis = -1>(all, given)  {USED}",
    "a Split of something else": f"a, b, c = Split<axis = -1>(x, all)  {USED}",
    "products of matrices alone": f"{SPLIT}  t = Transpose(b)  s = Gemm(a, t)  y = Gemm(s, c)",
    "convolutions": f"{SPLIT}  s = Conv(a, b)  y = Conv(s, c)",
    "queries and keys that are computed": f"{SPLIT}  e = Exp(a)  t = Transpose(b)  s = MatMul(e, t)  y = MatMul(s, c)",
}


@pytest.mark.parametrize("name", FUSED)
def test_a_product_that_is_cut_in_three_for_an_attention(name: str) -> None:
    assert fused(FUSED[name])


@pytest.mark.parametrize("name", NOT_FUSED)
def test_other_products(name: str) -> None:
    assert not fused(NOT_FUSED[name])


@pytest.mark.parametrize(("lengths", "even"), [("6, 6, 6", True), ("6, 6, 7", False)])
def test_lengths_that_are_an_attribute(lengths: str, even: bool) -> None:
    assert fused(f"a, b, c = Split<axis = -1, split = [{lengths}]>(all)  {USED}", opset=12) == even


@pytest.mark.parametrize(("steps", "found"), [(123, True), (124, False)])
def test_a_limited_number_of_tensors_is_followed(steps: int, found: bool) -> None:
    """Beside the steps: the product, its three parts, and one of them transposed."""
    between = "".join(f" i{n + 1} = Identity({f'i{n}' if n else 'all'})" for n in range(steps))
    assert fused(f"{between}  {SPLIT.replace('all', f'i{steps}')}  {USED}") == found
