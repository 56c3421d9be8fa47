"""The type that the Q/DQ around a node ask for, on every combination of operands."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.engine_models import FP8, IMAGE, INT4, INT8, ROWS, Net, branches, conv, in_a_function, matmul
from support.qdq import constant, text_model

from qdqtool.engines.tensorrt.planned_types import PlannedNode, planned_nodes, quantized_share, quantized_types, work_of
from qdqtool.models.graph.model import Model
from qdqtool.models.report import Work

KINDS = ("float", "int8", "float constant", "int8 constant", "int4 constant")


def operand(net: Net, name: str, kind: str) -> str:
    """A matrix [64, 64] of this kind."""
    match kind:
        case "float":
            return name
        case "int8":
            return net.activation(name)
        case "float constant":
            return net.float_weight(f"{name}_w", (64, 64))
    return net.weight(f"{name}_w", (64, 64), INT4 if kind == "int4 constant" else INT8)


def product(left: str, right: str) -> list[PlannedNode]:
    net = Net()
    net.op("MatMul", [operand(net, "a", left), operand(net, "b", right)], "y")
    return planned(net, {"a": (64, 64), "b": (64, 64)})


def planned(net: Net, inputs: dict[str, tuple[int, ...]] | None = None) -> list[PlannedNode]:
    return planned_nodes(Model(net.model(inputs or ROWS)))


@pytest.mark.parametrize(("left", "right"), [*itertools.product(KINDS, KINDS)])
def test_each_combination_of_operands(left: str, right: str) -> None:
    found = product(left, right)
    codes = [kind.split()[0] for kind in (left, right) if kind.startswith("int")]
    if not codes:
        assert found == []
        return
    (node,) = found
    assert node.formats == codes
    both = len(codes) == 2
    constants_alone = all(kind.endswith(" constant") for kind in (left, right) if kind.startswith("int"))
    assert node.weight_only == (not both and constants_alone)
    assert node.one_sided == (not both and not constants_alone)
    words = codes[0] if len(set(codes)) == 1 else " x ".join(codes)
    assert node.planned == words + ("-weight-only" if not both and constants_alone else "")
    assert [each.is_weight for each in node.operands] == [kind.endswith(" constant") for kind in (left, right)]
    assert not node.cast
    assert node.wrong_axis is None
    assert not node.per_axis_activation


@pytest.mark.parametrize(
    ("model", "wrong"),
    [
        (conv(axis=0), None),
        (conv(axis=1), 1),
        (conv(axis=None), None),
        (matmul(axis=1), None),
        (matmul(axis=0), 0),
        (matmul(axis=0, block=16), None),
        (matmul(op_type="Gemm", axis=0), 0),
        (matmul(op_type="Gemm", axis=1), None),
        (matmul(op_type="Gemm", transB=1, axis=0), None),
        (matmul(op_type="Gemm", transB=1, axis=1), 1),
        (conv(op_type="ConvTranspose", axis=1), None),
    ],
)
def test_the_axis_that_is_not_the_output_channel(model: onnx.ModelProto, wrong: int | None) -> None:
    (node,) = planned_nodes(Model(model))
    assert node.wrong_axis == wrong


@pytest.mark.parametrize(("axis", "wrong"), [(-1, None), (-2, 0), (1, None), (2, 2), (-3, -3)])
def test_an_axis_may_count_from_the_end_and_one_outside_is_told_as_written(axis: int, wrong: int | None) -> None:
    model = matmul(axis=1)
    (dequantize,) = (node for node in model.graph.node if node.name == "w_d.DequantizeLinear")
    dequantize.attribute[0].i = axis
    (node,) = planned_nodes(Model(model))
    assert node.wrong_axis == wrong


def test_the_axis_of_a_weight_on_the_left_and_of_one_behind_it_are_judged_both() -> None:
    net = Net()
    net.op("MatMul", [net.weight("a", (64, 32), axis=1), net.weight("b", (32, 8), axis=0)], "y")
    (node,) = planned(net)
    assert node.wrong_axis == 0


@pytest.mark.parametrize("op_type", ["Transpose", "Identity", "Cast"])
def test_the_axis_is_judged_only_where_it_means_what_it_says(op_type: str) -> None:
    net = Net()
    attributes = {"Transpose": {"perm": [1, 0]}, "Cast": {"to": TensorProto.FLOAT}}.get(op_type, {})
    moved = net.op(op_type, [net.weight("w", (64, 64), axis=0)], "moved", **attributes)
    net.op("MatMul", [net.activation("x"), moved], "y")
    (node,) = planned(net)
    assert node.formats == ["int8", "int8"]
    assert node.wrong_axis == (None if op_type == "Transpose" else 0)
    assert node.cast == (op_type == "Cast")
    assert [each.rank for each in node.operands] == [2, None if op_type == "Transpose" else 2]


def test_a_transpose_in_front_of_other_operators_still_hides_the_axis() -> None:
    net = Net()
    net.op("Transpose", [net.weight("w", (64, 64), axis=0)], "t", perm=[1, 0])
    net.op("Cast", ["t"], "c", to=TensorProto.FLOAT)
    net.op("Identity", ["c"], "i")
    net.op("MatMul", [net.activation("x"), "i"], "y")
    (node,) = planned(net)
    assert (node.cast, node.wrong_axis) == (True, None)


def test_an_operator_that_computes_ends_the_search() -> None:
    net = Net()
    net.op("Exp", [net.activation("x")], "e")
    net.op("MatMul", ["e", net.weight("w", (64, 32), axis=1)], "y")
    (node,) = planned(net)
    assert [each.format for each in node.operands] == [None, "int8"]
    assert node.weight_only


@pytest.mark.parametrize(("steps", "formats"), [(15, ["int8", "int8"]), (16, ["int8"])])
def test_a_dq_is_found_behind_fifteen_operators(steps: int, formats: list[str]) -> None:
    net = Net()
    last = net.activation("x")
    for step in range(steps):
        last = net.op("Identity", [last], f"i{step}")
    net.op("MatMul", [last, net.weight("w", (64, 32), axis=1)], "y")
    (node,) = planned(net)
    assert node.formats == formats


@pytest.mark.parametrize(("x_axis", "several"), [(None, False), (1, True)])
def test_an_activation_with_more_than_one_scale(x_axis: int | None, several: bool) -> None:
    (node,) = planned_nodes(Model(conv(x_axis=x_axis)))
    assert node.per_axis_activation is several


def test_an_activation_whose_granularity_is_not_known_is_not_blamed() -> None:
    model = conv()
    model.graph.initializer.remove(next(each for each in model.graph.initializer if each.name == "x_s"))
    model.graph.input.append(helper.make_tensor_value_info("x_s", TensorProto.FLOAT, None))
    (node,) = planned_nodes(Model(model))
    assert not node.per_axis_activation


def test_an_operand_that_is_not_there_is_float() -> None:
    net = Net()
    net.op("MatMul", [net.activation("x"), ""], "y")
    (node,) = planned(net)
    assert ([each.format for each in node.operands], node.one_sided) == (["int8", None], True)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_quantized_bias_is_no_operand_and_does_not_make_a_quantized_weight_int32(quantized: bool) -> None:
    net = Net()
    net.initializers.append(helper.make_tensor("bias", TensorProto.INT32, [16], bytes(64), raw=True))
    bias = net.op("DequantizeLinear", ["bias", net.scale("bias_s")], "bias_d")
    x = net.activation("x") if quantized else "x"
    w = net.weight("w", (16, 16, 3, 3), axis=0) if quantized else net.float_weight("w", (16, 16, 3, 3))
    net.op("Conv", [x, w, bias], "y")
    assert [node.planned for node in planned(net, IMAGE)] == (["int8"] if quantized else [])


def test_nodes_of_bodies_and_functions_are_planned_too() -> None:
    paths = {node.node.scope.path for node in planned_nodes(Model(branches()))}
    assert paths == {("y.then_branch",), ("y.else_branch",)}
    (inside,) = planned_nodes(Model(in_a_function()))
    assert inside.planned == "int8"


def test_the_types_of_a_model() -> None:
    assert quantized_types(Model(conv(quantize_x=False, quantize_w=False))) == frozenset()
    assert quantized_types(Model(matmul(kind=INT4, axis=0, block=16))) == {"int8", "int4"}
    assert quantized_types(Model(conv(kind=FP8))) == {"float8e4m3fn"}


@pytest.mark.parametrize(
    ("op_type", "kinds"),
    [
        ("TRT_FP8QuantizeLinear", {"float8e4m3fn"}),
        ("TRT_MXFP8DequantizeLinear", {"float8e4m3fn"}),
        ("TRT_FP4DynamicQuantize", {"float4e2m1"}),
        ("TRT_INT4DequantizeLinear", {"int4"}),
        ("TRT_INT8Nothing", set()),
        ("My_TRT_FP8QuantizeLinear", set()),
    ],
)
def test_operators_of_tensorrt_say_their_type_by_their_name(op_type: str, kinds: set[str]) -> None:
    node = helper.make_node(op_type, ["x", "s"], ["y"], domain="trt")
    scale = {"s": helper.make_tensor("s", TensorProto.FLOAT, [], np.float32(1).tobytes(), raw=True)}
    given = TensorProto.INT4 if op_type == "TRT_INT4DequantizeLinear" else TensorProto.FLOAT
    infos = [helper.make_tensor_value_info(name, kind, (4,)) for name, kind in (("x", given), ("y", TensorProto.FLOAT))]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], [*scale.values()])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("trt", 1)]
    assert quantized_types(Model(helper.make_model(graph, opset_imports=imports, ir_version=10))) == kinds


CUBE = 64**3


@pytest.mark.parametrize(
    ("left", "right", "kind", "in_float32"),
    [
        ("int8", "int8 constant", "int8", False),
        ("int8", "float constant", "float32", True),
        ("float", "int4 constant", "int4-weight-only", True),
        ("int8", "int4 constant", "int8 x int4", False),
        ("float", "float constant", "float32", True),
    ],
)
def test_work_counts_by_the_type_of_the_operands(left: str, right: str, kind: str, in_float32: bool) -> None:
    net = Net()
    net.op("MatMul", [operand(net, "a", left), operand(net, "b", right)], "y")
    found = work_of(Model(net.model({"a": (64, 64)})))
    assert (found.by_type, found.float32) == ({kind: CUBE}, {"y.MatMul": CUBE} if in_float32 else {})
    assert quantized_share(found) == (0 if kind == "float32" else 1)


HALVES = """<ir_version: 9, opset_import: ["": 19]>
    g (float16[n,64] x, bool c) => (float[n,64] y) {
        a = MatMul (x, w)
        b = Cast <to = 1> (a)
        s = MatMul (v, v)
        d = MatMul (b, s)
        e = MatMul (d, v)
        f = Softmax (e)
        y = MatMul (f, v)
    }"""


def test_work_tells_half_precision_from_float32_and_leaves_out_what_is_folded() -> None:
    found = work_of(
        text_model(HALVES, constant("w", np.ones((64, 64)), TensorProto.FLOAT16), constant("v", np.ones((64, 64))))
    )
    assert found.by_type == {"float32": 3 * 4096, "float16": 4096}
    assert list(found.float32.values()) == [4096] * 3
    assert [found.share(macs) for macs in found.by_type.values()] == [0.75, 0.25]
    assert (quantized_share(found), quantized_share(Work(by_type={}))) == (0, None)


def test_a_recurrent_node_multiplies_its_weights_in_every_step() -> None:
    model = text_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[9,2,8] x) => (float[9,1,2,4] y) {
            y, h, c = LSTM <hidden_size = 4> (x, w, r)
        }""",
        constant("w", np.ones((1, 16, 8))),
        constant("r", np.ones((1, 16, 4))),
    )
    assert work_of(model).by_type == {"float32": 9 * 2 * 16 * (8 + 4)}


def test_the_bytes_of_weights_are_those_that_the_model_stores() -> None:
    assert work_of(Model(matmul(kind=INT4, axis=0, block=16))).weight_bytes == {"int4": 1024, "float32": 516, "int8": 1}
