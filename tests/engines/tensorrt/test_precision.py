"""Planned against actual types: on stored layer dumps, and with the real builder for every pattern that matters."""

import pytest
from onnx import TensorProto, helper
from support.engine_models import FP8, IMAGE, INT4, Net, branches, conv, in_a_function, matmul, mixed_axes, save
from support.kernels import DUMPS, dumped, engine_of, kernels_in, typed_kernel

from qdqtool.engines.tensorrt.backends.tensorrt_rtx import BUILDER
from qdqtool.engines.tensorrt.builder import EngineRequest
from qdqtool.engines.tensorrt.child import plain_name
from qdqtool.engines.tensorrt.inspector import read_dump, read_inspector
from qdqtool.engines.tensorrt.planned_types import planned_nodes
from qdqtool.engines.tensorrt.precision import compare, computes_in, engine_name
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.model import Model


def lines(model, name, evidence="aot-dump"):
    kernels = kernels_in(name) if name else ()
    found = compare(planned_nodes(Model(model)), engine_of(*kernels, evidence=evidence))
    return {node.name: (node.planned, node.actual, node.reason) for node in found}


def test_one_of_three_nodes_falls_back_and_says_why():
    found = lines(mixed_axes(), "mixed_axes")
    reason = "its weight has scales along axis 1, which is not the output-channel axis"
    assert found["a.Conv"] == ("int8", "float32", reason)
    assert found["b.Conv"] == found["y.MatMul"] == ("int8", "int8", None)
    assert set(found) == {"a.Conv", "b.Conv", "y.MatMul"}


def test_nodes_without_names_are_found_by_their_outputs():
    text = dumped("mixed_axes")
    for name, output in (("a.Conv", "a"), ("b.Conv", "b"), ("y.MatMul", "y")):
        text = text.replace(name, f"node_of_{output}")
    found = compare(planned_nodes(Model(mixed_axes(names=False))), engine_of(*read_dump(text)))
    expected = [("Conv -> a", "float32"), ("Conv -> b", "int8"), ("MatMul -> y", "int8")]
    assert [(node.name, node.actual) for node in found] == expected


def test_each_branch_of_an_if_finds_its_own_kernel():
    found = compare(planned_nodes(Model(branches())), engine_of(*kernels_in("branches")))
    assert {(node.graph, node.actual) for node in found} == {("y.then_branch", "int8"), ("y.else_branch", "int8")}
    assert len({node.kernel for node in found}) == 2


def test_a_branch_does_not_take_the_kernel_of_a_node_of_the_same_name_elsewhere():
    model = branches()
    for attribute in model.graph.node[0].attribute:
        attribute.g.name = f"other_{attribute.g.name}"
    found = compare(planned_nodes(Model(model)), engine_of(*kernels_in("branches")))
    assert {node.actual for node in found} == {"unknown"}


def test_a_node_in_a_local_function_is_found():
    assert lines(in_a_function(), "in_a_function") == {"b.MatMul": ("int8", "int8", None)}


def test_without_evidence_nothing_is_claimed():
    ((_, actual, reason),) = lines(conv(), None, "none").values()
    assert (actual, reason) == ("unknown", "the builder gave no layer information")


def test_names_keep_what_the_dump_and_the_json_can_hold():
    assert plain_name('a"b\\c\x1fd\ne') == "a b c d e"
    assert plain_name("a'b/c (d) [e] | é") == "a'b/c (d) [e] | é"


def test_operands_of_unknown_type_prove_nothing():
    sample = (DUMPS / "inspector" / "10_dynamic_shapes.json").read_text(encoding="utf-8")
    kernels = read_inspector(sample.replace(": conv]", ": y.Conv]"))
    found = of_kernels(conv(), *kernels, evidence="inspector")
    assert (found.actual, found.kernel) == ("unknown", "w + w_QuantizeLinear + conv + relu")
    assert found.reason == "TensorRT does not report the types that its kernel reads (for example with dynamic shapes)"


def test_a_node_that_no_kernel_names_is_unknown():
    ((_, actual, reason),) = lines(conv(), "matmul_axis_k").values()
    assert actual == "unknown"
    assert "folded away" in reason


def test_a_float_model_plans_nothing():
    assert planned_nodes(Model(conv(quantize_x=False, quantize_w=False))) == []


def through_maxpool():
    net = Net()
    net.op("MaxPool", [net.activation("x")], "m", kernel_shape=[2, 2])
    net.op("Conv", ["m", net.weight("w", (16, 16, 3, 3), axis=0)], "y")
    return net.model(IMAGE)


def through_cast():
    net = Net()
    net.op("Cast", [net.weight("w", (64, 32), axis=1)], "h", to=10)
    net.op("Cast", ["h"], "f", to=1)
    net.op("MatMul", [net.activation("x"), "f"], "y")
    return net.model({"x": (8, 64)})


def attention():
    net = Net()
    net.op("MatMul", [net.activation("q"), net.activation("k")], "s")
    net.op("Softmax", ["s"], "p", axis=-1)
    net.op("MatMul", [net.activation("p"), net.activation("v")], "y")
    return net.model({"q": (1, 4, 16, 32), "k": (1, 4, 32, 16), "v": (1, 4, 16, 32)})


def hostile():
    model = conv()
    name = "evil]\n[ONNX Layer: x], Outputs: [ { Datatype: Float }] \x1b[31m\x1f\u202e, LayerType: "
    model.graph.node[-1].name = name
    return model


def of_kernels(model, *kernels, evidence="aot-dump"):
    """What is said of the one planned node of a model whose engine has these kernels."""
    (found,) = compare(planned_nodes(Model(model)), engine_of(*kernels, evidence=evidence))
    return found


def of_one(model, node, name="k", layer_type="gemm", **types):
    """What is said of that node where one kernel names it."""
    return of_kernels(model, typed_kernel(name=name, layer_type=layer_type, nodes=(node,), **types))


INT8_KERNEL = {"inputs": ("int8",), "constants": ("int8",), "outputs": ("float32",)}
FLOAT_KERNEL = {"inputs": ("float32",), "constants": ("float32",), "outputs": ("float32",)}

ONE_SIDED = "only one of its two operands is quantized; quantize the other one too"
UNPACKED = "its weight is dequantized by a kernel of its own, and the product is computed in float"
FAULTS = {
    "one quantized activation": (lambda: matmul(w=False), ONE_SIDED),
    "one quantized activation of a conv": (lambda: conv(quantize_w=False), ONE_SIDED),
    "weight of a conv": (
        lambda: conv(quantize_x=False),
        "only its weight is quantized, and it has no weight-only kernel; quantize its activation too",
    ),
    "int8 weight of a product": (lambda: matmul(x_kind=None), UNPACKED),
    "int4 weight in blocks": (lambda: matmul(kind=INT4, x_kind=None, axis=0, block=16), UNPACKED),
    "int4 weight with an axis": (
        lambda: matmul(kind=INT4, x_kind=None),
        "int4 weights stay packed only with block scales; the weight is dequantized before a float kernel",
    ),
    "deconvolution": (lambda: conv(op_type="ConvTranspose"), "ConvTranspose always runs in float, even with Q/DQ"),
    "axis of inputs": (
        lambda: conv(axis=1, x_axis=1),
        "its weight has scales along axis 1, which is not the output-channel axis",
    ),
    "activation with an axis": (
        lambda: conv(x_axis=1),
        "its activation has more than one scale; kernels take per-tensor activations",
    ),
    "cast": (through_cast, "there is a Cast between a DequantizeLinear and the node"),
    "nothing": (conv, "the builder chose a float kernel"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fallback_is_explained_by_what_is_wrong_in_the_model(case):
    make, reason = FAULTS[case]
    model = make()
    found = of_one(model, model.graph.node[-1].name, **FLOAT_KERNEL)
    assert (found.actual, found.reason) == ("float32", reason)


@pytest.mark.parametrize("case", FAULTS)
def test_nothing_is_said_where_no_kernel_or_no_evidence_is_there(case):
    found = of_kernels(FAULTS[case][0]())
    assert (found.actual, found.kernel) == ("unknown", None)
    assert found.reason == "no kernel names this node: it was folded away or merged into another one"
    found = of_kernels(FAULTS[case][0](), evidence="none")
    assert (found.actual, found.reason) == ("unknown", "the builder gave no layer information")


def test_a_node_that_runs_as_planned_needs_no_reason():
    found = of_one(conv(), "y.Conv", name="y.Conv_myl0", layer_type="correlation", **INT8_KERNEL)
    assert (found.name, found.op_type, found.graph) == ("y.Conv", "Conv", "")
    assert (found.planned, found.actual, found.kernel, found.reason) == ("int8", "int8", "y.Conv_myl0", None)


def test_two_formats_may_be_brought_to_one():
    model = matmul(kind=INT4, axis=0, block=64)
    found = of_one(model, "y.MatMul", **INT8_KERNEL)
    assert (found.planned, found.actual) == ("int8 x int4", "int8")
    assert found.reason == "both operands are converted to int8 before an int8 kernel"
    found = of_one(model, "y.MatMul", inputs=("int8",), constants=("int4",))
    assert (found.actual, found.reason) == ("int8 x int4", None)
    found = of_one(model, "y.MatMul", **FLOAT_KERNEL)
    assert (found.actual, found.reason) == ("float32", "the builder chose a float kernel")


def test_a_type_that_nobody_planned_is_not_explained_by_two_formats():
    found = of_one(conv(), "y.Conv", inputs=("float8e4m3fn",), constants=("float8e4m3fn",))
    assert found.reason == DEQUANTIZES


DEQUANTIZES = "the kernel reads quantized data but dequantizes it before it multiplies"


@pytest.mark.parametrize(
    ("layer_type", "inputs", "constants", "reason"),
    [
        ("gemm", ("int8", "float32"), (), DEQUANTIZES),
        ("gemm", ("float16",), ("int8", "float16"), DEQUANTIZES),
        ("gemm", ("float32", "bool", "int32"), ("int64",), "the builder chose a float kernel"),
        ("kgen", ("int8",), ("int8",), "the builder chose a float kernel"),
    ],
)
def test_a_kernel_that_dequantizes_itself_is_told_from_a_float_one(layer_type, inputs, constants, reason):
    assert of_one(conv(), "y.Conv", layer_type=layer_type, inputs=inputs, constants=constants).reason == reason


ROW = ("float32", "float16", "bfloat16", "bool", "int32", "int64")


@pytest.mark.parametrize(
    ("inputs", "constants", "outputs", "computed"),
    [
        (("int8",), ("int8",), ("float32",), "int8"),
        (("int8", "int8"), (), ("float32",), "int8"),
        (("int8", "float32"), (), ("float32",), "float32"),
        (("int8",), (), ("float16",), "float16"),
        (("int8",), (), ("int8",), "unknown"),
        (("float8e4m3fn",), ("int4",), (), "float8e4m3fn x int4"),
        (("float16",), ("int4",), ("float16",), "int4-weight-only"),
        (("bfloat16",), ("float32", "int8"), (), "int8-weight-only"),
        (("float16", "int8"), ("float32",), (), "float16"),
        (("float16",), ("float32",), ("float32",), "float16"),
        ((), ("float32",), ("bfloat16",), "bfloat16"),
        (("int32", "bool", "int64"), ("int64",), (), "unknown"),
        (("int8", "bool"), ("int32",), ("float32",), "float32"),
        (ROW, (), (), "float32"),
        (("bool", "int8"), ("int8", "int8"), (), "int8"),
        (("float4e2m1", "float8e8m0"), ("float4e2m1",), (), "float4e2m1"),
        (("float4e2m1", "float8e4m3fn", "float8e4m3fn"), ("float4e2m1",), (), "float4e2m1"),
        (("float8e4m3fn",), ("float4e2m1",), (), "float8e4m3fn x float4e2m1"),
    ],
)
def test_the_type_that_a_kernel_multiplies(inputs, constants, outputs, computed):
    types = {"inputs": inputs, "constants": constants, "outputs": outputs}
    assert computes_in(typed_kernel(name="k", layer_type="gemm", **types)) == computed


@pytest.mark.parametrize(
    ("name", "layer_type", "multiplies"),
    [
        *(("k", kind, True) for kind in ("correlation", "GEMM", "CaskConvolution", "runtime_fusion", "attention")),
        *(("k", kind, True) for kind in ("fused_mha", "MatMul", "MatrixMultiply", "FullyConnected")),
        ("_gemm_mha_v2_0", "kgen", True),
        ("_GEMM_0", "kgen", True),
        ("x_MHA", "kgen", True),
        ("b.gemm", "kgen", False),
        ("__myl_Mul", "kgen", False),
        ("y.Conv", "Reformat", False),
    ],
)
def test_kernels_that_multiply_by_their_kind_or_name(name, layer_type, multiplies):
    kernel = typed_kernel(name=name, layer_type=layer_type, **INT8_KERNEL)
    assert computes_in(kernel) == ("int8" if multiplies else "float32")


@pytest.mark.parametrize(
    ("name", "layer_type", "computed"),
    [
        ("__myl_CastMulCastFc_0", "runtime_fusion", "float32"),
        ("__myl_CastMulAddCorr_0", "runtime_fusion", "float32"),
        ("__myl_MulRounCastFcCastMul_0", "runtime_fusion", "int8"),
        ("__myl_FcCastMulFc_0", "runtime_fusion", "int8"),
        ("__myl_CastMulAdd_0", "runtime_fusion", "int8"),
        ("__myl_CastMulCastFc_0", "gemm", "int8"),
        ("__myl_CastMulDeco_0", "runtime_fusion", "float32"),
    ],
)
def test_a_fused_kernel_that_dequantizes_before_its_product_computes_in_float(name, layer_type, computed):
    assert computes_in(typed_kernel(name=name, layer_type=layer_type, **INT8_KERNEL)) == computed


@pytest.mark.parametrize(
    ("name", "constants", "computed"),
    [
        # What RTX 1.7.1 makes of the last Conv of a squeeze-and-excitation block, in int8 and in fp8.
        ("__myl_MulAddReluMulMinMaxRounCastCorrMulAddMove_myl0_5", ("int8",), "int8"),
        ("__myl_MulAddReluMulCastCorrMulAddMove_myl0_5", ("float32", "float8e4m3fn"), "float8e4m3fn"),
        ("__myl_MulRounCastFcMulAdd_0", ("int8",), "int8"),
        # Its weight is stored in float, or unpacked before.
        ("__myl_MulAddReluMulMinMaxRounCastCorrMulAddMove_myl0_5", ("float32",), "float32"),
        ("__myl_CastMulRounCastCorr_0", ("int8",), "float32"),
        ("__myl_MulRounCastCastMulCorr_0", ("int8",), "float32"),
        ("__myl_MulAddCorr_0", ("int8",), "float32"),
        # Which product is that of the node, and which constant its weight, is not known.
        ("__myl_CorrMulRounCastCorr_0", ("int8",), "float32"),
        ("__myl_MulRounCastCorr_0", ("int8", "int4"), "float32"),
        ("__myl_MulMinMaxRounCast_0", ("int8",), "float32"),
    ],
)
def test_a_generated_kernel_that_quantizes_its_activation_computes_in_the_type_of_its_weight(name, constants, computed):
    types = {"inputs": ("float32",), "constants": constants, "outputs": ("float32",)}
    assert computes_in(typed_kernel(name=name, layer_type="kgen", **types)) == computed


def test_a_fused_kernel_with_one_packed_constant_is_weight_only_though_it_dequantizes():
    types = {"inputs": ("float32",), "constants": ("int8",), "outputs": ("float32",)}
    kernel = typed_kernel(name="__myl_CastMulCastFc_0", layer_type="runtime_fusion", **types)
    assert computes_in(kernel) == "int8-weight-only"


def test_of_several_kernels_that_name_a_node_its_own_product_counts():
    scale = typed_kernel(name="__myl_Mul_y.Conv", layer_type="kgen", nodes=("y.Conv",), **FLOAT_KERNEL)
    other = typed_kernel(name="z.Conv_myl0", layer_type="correlation", nodes=("z.Conv", "y.Conv"), **FLOAT_KERNEL)
    own = typed_kernel(name="y.Conv_myl0", layer_type="correlation", nodes=("r.Relu", "y.Conv"), **INT8_KERNEL)
    foreign = typed_kernel(name="y.Conv_else", layer_type="correlation", nodes=("y.Conv2",), **FLOAT_KERNEL)
    assert of_kernels(conv(), foreign, scale, other, own).kernel == "y.Conv_myl0"
    assert of_kernels(conv(), foreign, scale, other).kernel == "z.Conv_myl0"
    assert of_kernels(conv(), foreign, scale).kernel == "__myl_Mul_y.Conv"
    assert of_kernels(conv(), foreign).kernel is None


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ("b.MatMul | call (layer)", True),
        ("b.MatMul | inner (layer) | call (outer)", True),
        ("b.MatMul", False),
        ("b.MatMul | call (other)", False),
        ("b.MatMul | call (other) | outer (layer)", False),
        ("x | b.MatMul | call (layer)", False),
        ("b.MatMul2 | call (layer)", False),
        ("b.MatMul | call(layer)", False),
    ],
)
def test_a_node_of_a_local_function_is_named_with_its_call(entry, found):
    assert of_one(in_a_function(), entry, **INT8_KERNEL).actual == ("int8" if found else "unknown")


def around(model, op_type, name, *bodies, outputs=("out",)):
    """The nodes of a model as the first body of one node, with the given others."""
    inner = helper.make_graph(list(model.graph.node), "in\tside", [], [*model.graph.output])
    attributes = dict(zip(bodies, [inner, helper.make_graph([], "none", [], [])], strict=False))
    node = helper.make_node(op_type, ["flag"], [*outputs], name, **attributes)
    graph = helper.make_graph([node], "main", [*model.graph.input], [], [*model.graph.initializer])
    graph.output.append(helper.make_tensor_value_info("out", TensorProto.FLOAT, None))
    graph.input.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(("name", "spelled"), [("if\n1", "if 1"), ("", "node_of_out")])
def test_a_node_of_a_branch_is_named_with_its_branch(name, spelled):
    model = around(matmul(), "If", name, "then_branch", "else_branch")
    entry = f"y.MatMul | in side (then_branch) | {spelled} (If)"
    assert of_one(model, entry, **INT8_KERNEL).actual == "int8"
    assert of_one(model, "y.MatMul", **INT8_KERNEL).actual == "unknown"


def test_a_branch_in_a_branch_is_named_from_the_inside_out():
    inner = around(matmul(), "If", "a", "then_branch", "else_branch")
    inner.graph.name = "middle"
    inner.graph.output[0].name = inner.graph.node[0].output[0] = "mid"
    outer = around(inner, "If", "b", "else_branch", "then_branch")
    entry = "y.MatMul | in side (then_branch) | a (If) | in side (else_branch) | b (If)"
    assert of_one(outer, entry, **INT8_KERNEL).actual == "int8"


def test_a_node_of_a_loop_has_its_own_name_alone():
    assert of_one(around(matmul(), "Loop", "loop", "body"), "y.MatMul", **INT8_KERNEL).actual == "int8"


@pytest.mark.parametrize(
    ("name", "outputs", "spelled"), [("a\tb", ["o"], "a b"), ("", ["o\n", "p"], "node_of_o "), ("", [], "node_of_")]
)
def test_the_parser_names_a_node_by_its_first_output_where_it_has_no_name(name, outputs, spelled):
    model = conv()
    model.graph.node[-1].name = name
    del model.graph.node[-1].output[:]
    model.graph.node[-1].output.extend(outputs)
    (node,) = planned_nodes(Model(model))
    assert engine_name(node.node) == spelled


INT8_ONLY, INT4_ONLY = "int8-weight-only", "int4-weight-only"
CASES = {
    "conv": (conv, "int8", "int8", ""),
    "conv, per-tensor weight": (lambda: conv(axis=None), "int8", "int8", ""),
    "conv, fp8": (lambda: conv(kind=FP8), "float8e4m3fn", "float8e4m3fn", ""),
    "conv, per-axis activation": (lambda: conv(x_axis=1), "int8", "float32", "more than one scale"),
    "conv, weight only": (lambda: conv(quantize_x=False), INT8_ONLY, "float32", "only its weight"),
    "conv, activation only": (lambda: conv(quantize_w=False), "int8", "float32", "only one of its two operands"),
    "conv transpose": (lambda: conv(op_type="ConvTranspose", axis=None), "int8", "float32", "always runs in float"),
    "gemm": (lambda: matmul(op_type="Gemm"), "int8", "int8", ""),
    "gemm, transposed": (lambda: matmul(op_type="Gemm", transB=1, axis=0), "int8", "int8", ""),
    "gemm, wrong axis": (lambda: matmul(op_type="Gemm", transB=1, axis=1), "int8", "float32", "along axis 1"),
    "matmul, axis of K": (lambda: matmul(axis=0), "int8", "float32", "along axis 0"),
    "matmul, activation only": (lambda: matmul(w=False), "int8", "float32", "only one of its two operands"),
    "matmul, weight only": (lambda: matmul(x_kind=None), INT8_ONLY, INT8_ONLY, ""),
    "matmul, int4 blocks": (lambda: matmul(kind=INT4, x_kind=None, axis=0, block=16), INT4_ONLY, INT4_ONLY, ""),
    "matmul, int4 per axis": (lambda: matmul(kind=INT4, x_kind=None), INT4_ONLY, "float32", "block scales"),
    "matmul, int8 blocks": (lambda: matmul(x_kind=None, axis=0, block=16), INT8_ONLY, "float32", UNPACKED),
    "matmul, int4 weight, int8 activation": (
        *(lambda: matmul(kind=INT4, axis=0, block=64), "int8 x int4"),
        *("int8", "converted to int8"),
    ),
    "cast in between": (through_cast, "int8", "float32", "there is a Cast"),
    "max pool in between": (through_maxpool, "int8", "int8", ""),
    "attention": (attention, "int8", "int8", ""),
    "hostile name": (hostile, "int8", "int8", ""),
}


@pytest.mark.builder
@pytest.mark.parametrize("case", CASES)
def test_what_the_builder_really_does(case, tmp_path):
    pytest.importorskip("tensorrt_rtx")
    make, planned, actual, reason = CASES[case]
    model = load_model(save(make(), tmp_path))
    request = EngineRequest(model=model, engine=tmp_path / "e", targets=BUILDER.resolve_targets((), model), timeout=120)
    nodes = list(BUILDER.precision(model, BUILDER.build(request)))
    assert len(nodes) == (2 if case == "attention" else 1)
    for node in nodes:
        assert (node.planned, node.actual) == (planned, actual), node
        assert reason in (node.reason or "")
        assert bool(node.reason) == (planned != actual)
