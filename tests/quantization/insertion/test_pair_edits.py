"""The nodes and constants of a pair, one by one: names, inputs, attributes, types and stored codes."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.random_models import whole
from support.small import make_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.tensors import pending_tensor
from qdqtool.models.graph.model import Model
from qdqtool.models.options import WeightStorage
from qdqtool.models.payload import Payload
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.insertion.apply_plan import apply_plan

STEP = np.float32(0.5)
QDQ = WeightStorage.QDQ
W = np.array([[0.5, -1.0], [2.0, 1.5]], np.float32)


def scheme(format_name: str, granularity: Granularity, scale_scheme: QuantScheme | None = None) -> QuantScheme:
    return QuantScheme(formats.get(format_name), granularity, scale_scheme=scale_scheme)


def plain(format_name: str = "int8", zero_point: object = None) -> QuantParams:
    return QuantParams(scheme(format_name, PerTensor()), np.asarray(STEP), zero_point)


def two_level(scale: np.ndarray, zero_point: object = None) -> QuantParams:
    """Blocks of two in float4e2m1, whose scales are quantized to float8e4m3fn."""
    outer = QuantParams(scheme("float8e4m3fn", PerTensor()), np.asarray(np.float32(0.25)))
    return QuantParams(scheme("float4e2m1", Blocked(0, 2), outer.scheme), scale, zero_point, outer)


def applied(
    model: onnx.ModelProto,
    *places: tuple[str, QuantParams] | tuple[str, QuantParams, tuple[UseRef, ...] | None],
    storage: WeightStorage = WeightStorage.PACKED,
    codes: Payload | None = None,
) -> onnx.ModelProto:
    plan = QuantPlan(
        tuple(Placement(Slot((), place[0], *place[2:]), place[1], "a test", codes=codes) for place in places)
    )
    result = whole(apply_plan(Model(model), plan, storage).model)
    onnx.checker.check_model(result)
    return result


def told(model: onnx.ModelProto) -> list[tuple[str, str, str, dict[str, int]]]:
    """Each node: its operator, its inputs, its outputs, its attributes."""
    return [
        (node.op_type, ",".join(node.input), ",".join(node.output), {each.name: each.i for each in node.attribute})
        for node in model.graph.node
    ]


def stored(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def product(*others: onnx.NodeProto, outputs: tuple[str, ...] = ("y",), opset: int = 23) -> onnx.ModelProto:
    """x[2,2] times W, then other nodes."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product"), *others]
    return make_model(nodes, {"x": (2, 2)}, dict.fromkeys(outputs, (2, 2)), {"w": W}, opset=opset, ir_version=11)


def test_an_activation_and_a_packed_weight() -> None:
    model = applied(product(), ("x", plain()), ("w", plain("uint8", np.uint8(4))))
    assert told(model) == [
        ("QuantizeLinear", "x,x_scale,x_zero_point", "x_QuantizeLinear_Output", {}),
        ("DequantizeLinear", "x_QuantizeLinear_Output,x_scale,x_zero_point", "x_DequantizeLinear_Output", {}),
        ("DequantizeLinear", "w_quantized,w_scale,w_zero_point", "w_DequantizeLinear_Output", {}),
        ("MatMul", "x_DequantizeLinear_Output,w_DequantizeLinear_Output", "y", {}),
    ]
    names = ["x_QuantizeLinear", "x_DequantizeLinear", "w_DequantizeLinear", "product"]
    assert [node.name for node in model.graph.node] == names
    assert {name: (array.dtype, array.tolist()) for name, array in stored(model).items()} == {
        "x_scale": (np.float32, 0.5),
        "x_zero_point": (np.int8, 0),
        "w_quantized": (np.uint8, [[5, 2], [8, 7]]),
        "w_scale": (np.float32, 0.5),
        "w_zero_point": (np.uint8, 4),
    }


@pytest.mark.parametrize(
    ("params", "attributes"),
    [
        (QuantParams(scheme("int8", PerAxis(1)), np.array([0.5, 1], np.float32)), {"axis": 1}),
        (QuantParams(scheme("int8", PerAxis(0)), np.array([0.5, 1], np.float32)), {"axis": 0}),
        (QuantParams(scheme("int8", Blocked(0, 2)), np.array([[0.5, 1]], np.float32)), {"axis": 0, "block_size": 2}),
    ],
)
@pytest.mark.parametrize("storage", WeightStorage)
def test_axis_and_block_of_q_and_dq(params: QuantParams, attributes: dict[str, int], storage: WeightStorage) -> None:
    model = applied(product(), ("w", params), storage=storage)
    nodes = [node for node in told(model) if node[0] != "MatMul"]
    assert [node[0] for node in nodes] == ["QuantizeLinear", "DequantizeLinear"][storage is not QDQ :]
    assert all(node[3] == attributes for node in nodes)
    zero = stored(model)["w_zero_point"]
    assert (zero.shape, zero.any()) == (params.scale.shape, False)


def test_a_weight_kept_as_float_stays_in_front_of_its_pair() -> None:
    model = applied(product(), ("w", plain()), storage=QDQ)
    assert [node[:2] for node in told(model)] == [
        ("QuantizeLinear", "w,w_scale,w_zero_point"),
        ("DequantizeLinear", "w_QuantizeLinear_Output,w_scale,w_zero_point"),
        ("MatMul", "x,w_DequantizeLinear_Output"),
    ]
    assert stored(model)["w"].tobytes() == W.tobytes()


@pytest.mark.parametrize("storage", WeightStorage)
def test_scales_that_are_quantized_have_a_dq_of_their_own(storage: WeightStorage) -> None:
    model = applied(product(), ("w", two_level(np.array([[0.25, 0.5]], np.float32))), storage=storage)
    attributes = {"axis": 0, "block_size": 2}
    quantizer = ("QuantizeLinear", "w,w_scale", "w_QuantizeLinear_Output", attributes | {"output_dtype": 23})
    codes = "w_QuantizeLinear_Output" if storage is QDQ else "w_quantized"
    expected = [
        ("DequantizeLinear", "w_scale_quantized,w_scale_scale", "w_scale", {}),
        *([quantizer] if storage is QDQ else []),
        ("DequantizeLinear", f"{codes},w_scale", "w_DequantizeLinear_Output", attributes),
        ("MatMul", "x,w_DequantizeLinear_Output", "y", {}),
    ]
    assert sorted(told(model), key=str) == sorted(expected, key=str)
    constants = stored(model)
    assert constants["w_scale_quantized"].astype(float).tolist() == [[1, 2]]
    assert constants["w_scale_scale"].tolist() == 0.25
    assert "w_scale_DequantizeLinear" in {node.name for node in model.graph.node}


@pytest.mark.parametrize(("inner", "wanted"), [(np.float16, {"output_dtype": TensorProto.FLOAT16}), (np.float32, {})])
def test_a_dq_of_scales_says_its_type_where_its_own_scale_has_another(
    inner: type[np.generic], wanted: dict[str, int]
) -> None:
    model = applied(product(), ("w", two_level(np.ones((1, 2), inner))))
    of_scale, of_weight = (node for node in told(model) if node[0] == "DequantizeLinear")
    assert of_scale[3] == wanted
    # W is float32
    expected = {"axis": 0, "block_size": 2} | ({"output_dtype": TensorProto.FLOAT} if wanted else {})
    assert of_weight[3] == expected


@pytest.mark.parametrize("tensor", ["w", "x"])
def test_scales_of_powers_of_two_are_stored_and_divided_in_float32(tensor: str) -> None:
    alone = scheme("float8e8m0", PerTensor())
    scale = np.array([[0.5, 1]], ml_dtypes.float8_e8m0fnu)
    params = QuantParams(scheme("float8e4m3fn", Blocked(0, 2), alone), scale)
    model = product(opset=24)
    plan = QuantPlan((Placement(Slot((), tensor), params, "a test"),))
    result = whole(apply_plan(Model(model), plan, QDQ).model)
    shared = {"axis": 0, "block_size": 2}
    quantizer, dequantizer = (node for node in told(result) if node[0] != "MatMul")
    assert quantizer[3] == shared | {"output_dtype": TensorProto.FLOAT8E4M3FN, "precision": TensorProto.FLOAT}
    assert dequantizer[3] == shared | {"output_dtype": TensorProto.FLOAT}
    assert [len(node[1].split(",")) for node in (quantizer, dequantizer)] == [2, 2]


def test_given_codes_are_stored_instead_of_the_nearest() -> None:
    model = applied(product(), ("w", plain()), codes=Payload(4, lambda: bytes([1, 2, 3, 4])))
    assert stored(model)["w_quantized"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("format_name", ["int4", "uint4", "float4e2m1"])
def test_codes_of_four_bits_lie_two_in_a_byte(format_name: str) -> None:
    model = applied(product(), ("w", plain(format_name)))
    (codes,) = (tensor for tensor in model.graph.initializer if tensor.name == "w_quantized")
    assert len(codes.raw_data) == 2
    assert codes.data_type == formats.get(format_name).onnx_type
    read = numpy_helper.to_array(codes).astype(np.float32) * 0.5
    assert read.tolist() == (np.maximum(W, 0) if format_name == "uint4" else W).tolist()


def test_chosen_uses_alone_read_the_pair() -> None:
    more = helper.make_node("Add", ["x", "x"], ["z"], name="sum")
    chosen = (UseRef((), ("z",), 1), UseRef((), ("y",), 0))
    model = applied(product(more, outputs=("y", "z")), ("x", plain(), chosen))
    inputs = {node.name: list(node.input) for node in model.graph.node}
    assert inputs["product"] == ["x_DequantizeLinear_Output", "w"]
    assert inputs["sum"] == ["x", "x_DequantizeLinear_Output"]


def test_a_packed_weight_leaves_the_file_only_where_nobody_reads_it() -> None:
    more = helper.make_node("Add", ["x", "w"], ["z"], name="sum")
    model = applied(product(more, outputs=("y", "z")), ("w", plain(), (UseRef((), ("y",), 1),)))
    assert stored(model).keys() == {"w", "w_quantized", "w_scale", "w_zero_point"}
    both = applied(product(more, outputs=("y", "z")), ("w", plain()))
    assert stored(both).keys() == {"w_quantized", "w_scale", "w_zero_point"}


def test_an_output_of_the_graph_is_made_by_the_dq_under_its_name() -> None:
    more = helper.make_node("Neg", ["y"], ["z"], name="neg")
    model = applied(product(more, outputs=("z", "y")), ("y", plain()))
    assert [node[:3] for node in told(model)][:3] == [
        ("MatMul", "x,w", "y_float"),
        ("QuantizeLinear", "y_float,y_scale,y_zero_point", "y_QuantizeLinear_Output"),
        ("DequantizeLinear", "y_QuantizeLinear_Output,y_scale,y_zero_point", "y"),
    ]
    assert model.graph.node[3].input[0] == "y"
    assert [each.name for each in model.graph.output] == ["z", "y"]


def test_an_output_whose_readers_are_named_stays_float() -> None:
    more = helper.make_node("Neg", ["y"], ["z"], name="neg")
    model = applied(product(more, outputs=("z", "y")), ("y", plain(), (UseRef((), ("z",), 0),)))
    assert [node[:3] for node in told(model)][:2] == [
        ("MatMul", "x,w", "y"),
        ("QuantizeLinear", "y,y_scale,y_zero_point", "y_QuantizeLinear_Output"),
    ]
    assert model.graph.node[-1].input[0] == "y_DequantizeLinear_Output"


def test_the_right_one_of_several_outputs_is_renamed() -> None:
    nodes = [helper.make_node("Split", ["x"], ["a", "b"], name="split", axis=0, num_outputs=2)]
    model = make_model(nodes, {"x": (2, 2)}, {"a": (1, 2), "b": (1, 2)}, {}, opset=21, ir_version=10)
    assert list(applied(model, ("b", plain())).graph.node[0].output) == ["a", "b_float"]


def constant_output() -> onnx.ModelProto:
    weight = helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W, "ignored"))
    nodes = [weight, helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    return make_model(nodes, {"x": (2, 2)}, {"y": (2, 2), "w": (2, 2)}, {}, opset=21, ir_version=10)


def test_a_constant_that_is_an_output_is_not_packed() -> None:
    model = applied(constant_output(), ("w", plain()))
    assert [node[0] for node in told(model)] == ["Constant", "QuantizeLinear", "DequantizeLinear", "MatMul"]
    assert told(model)[2][2] == "w"


def test_a_stored_output_is_quantized_for_named_readers_only() -> None:
    model = product(outputs=("y", "w"))
    named = applied(model, ("w", plain(), (UseRef((), ("y",), 1),)))
    assert [node[0] for node in told(named)] == ["QuantizeLinear", "DequantizeLinear", "MatMul"]
    with pytest.raises(UsageError, match="tensor 'w' is a graph output that no node makes; it cannot be quantized"):
        applied(model, ("w", plain()))


def test_weights_are_read_when_the_model_is_saved() -> None:
    read = []

    def make() -> bytes:
        read.append("w")
        return W.tobytes()

    model = Model(product())
    del model.proto.graph.initializer[:]
    tensor = pending_tensor(model, "w", (2, 2), TensorProto.FLOAT, Payload(16, make))
    model.proto.graph.initializer.append(tensor)
    result = apply_plan(model, QuantPlan((Placement(Slot((), "w"), plain(), "a test"),))).model
    assert read == []
    assert stored(whole(result))["w_quantized"].tolist() == [[1, -2], [4, 3]]
    assert read == ["w"]


def test_names_that_are_taken_get_a_number() -> None:
    more = helper.make_node("Neg", ["y"], ["x_scale"], name="x_QuantizeLinear")
    model = applied(product(more, outputs=("x_scale",)), ("x", plain()))
    assert told(model)[0][:2] == ("QuantizeLinear", "x,x_scale_1,x_zero_point")
    assert model.graph.node[0].name == "x_QuantizeLinear_1"


def test_a_zero_point_that_is_given_is_written_where_scales_are_quantized_too() -> None:
    params = two_level(np.ones((1, 2), np.float32), np.zeros((1, 2), ml_dtypes.float4_e2m1fn))
    model = applied(product(), ("w", params), storage=QDQ)
    assert ("QuantizeLinear", "w,w_scale,w_zero_point") in [node[:2] for node in told(model)]
    assert [node[3] for node in told(model) if node[0] == "QuantizeLinear"] == [{"axis": 0, "block_size": 2}]


def test_a_tensor_of_an_unknown_type_is_float32() -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["a"], domain="other"), helper.make_node("Exp", ["a"], ["y"])]
    model = make_model(nodes, {"x": (2, 2)}, {"y": (2, 2)}, {}, opset=23, ir_version=11)
    model.opset_import.append(helper.make_opsetid("other", 1))
    plan = QuantPlan((Placement(Slot((), "a"), two_level(np.ones((1, 2), np.float32)), "a test"),))
    result = apply_plan(Model(model), plan).model.proto
    assert [node[3] for node in told(result) if node[0] == "DequantizeLinear"] == [{}, {"axis": 0, "block_size": 2}]
