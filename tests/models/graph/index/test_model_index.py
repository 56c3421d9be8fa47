"""The index of a model: each part against ONNX's own inference and evaluator, computed when asked for and once."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from qdqtool.models.graph.index import constants as constants_module
from qdqtool.models.graph.index import types as types_module
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Slot

NETWORK = """
network (float[n,3,8,8] x, int64[2] wanted) => (float[n,4] y)
<float s = {0.5}, int8 z = {3}, int64[2] starts = {0, 0}>
{
    q = QuantizeLinear (x, s, z)
    d = DequantizeLinear (q, s, z)
    c = Conv <pads = [1, 1, 1, 1]> (d, w)
    pooled = GlobalAveragePool (c)
    flat = Flatten (pooled)
    turned = Transpose <perm = [1, 0]> (m)
    doubled = Add (turned, turned)
    wide = MatMul (flat, doubled)
    half = Cast <to = 10> (wide)
    back = Cast <to = 1> (half)
    size = Shape <start = 1> (d)
    y = Slice (back, starts, wanted)
}
"""


def network() -> onnx.ModelProto:
    model = parsed(NETWORK)
    rng = np.random.default_rng(7)
    for name, shape in {"w": (4, 3, 3, 3), "m": (6, 4)}.items():
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def parsed(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}, "com.microsoft": 1]>\n{text}')


def evaluated(model: onnx.ModelProto, *names: str) -> list[np.ndarray]:
    """What ONNX's evaluator makes of tensors that depend on constants, and on the shape of ``x``."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    feeds = {"x": np.zeros((2, 3, 8, 8), np.float32), "wanted": np.array([2, 4], np.int64)}
    return ReferenceEvaluator(changed).run(list(names), feeds)


def test_types_are_those_that_onnx_infers():
    model = network()
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    expected = {
        info.name: (
            info.type.tensor_type.elem_type,
            tuple(dim.dim_value or dim.dim_param or None for dim in info.type.tensor_type.shape.dim),
        )
        for info in (*inferred.value_info, *inferred.input)
    }

    index = ModelIndex.of(Model(model))
    values = index.view.main.values

    assert len(expected) == 13  # two inputs, and what each node makes but y
    assert {name: (index.elem_type(values[name]), index.types.shape(values[name])) for name in expected} == expected


def test_constants_are_those_of_onnx_evaluator():
    model = network()
    (doubled,) = evaluated(model, "doubled")
    index = ModelIndex.of(Model(model))
    values = index.view.main.values

    assert np.array_equal(index.constant(values["doubled"]), doubled)
    constant = {name for name, value in values.items() if index.is_constant(value)}
    assert constant == {"w", "m", "s", "z", "starts", "turned", "doubled"}
    assert all(index.constant(value) is None for name, value in values.items() if name not in constant)


def test_a_chain_above_the_size_limit_is_not_told(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(constants_module, "MAX_FOLDED_ELEMENTS", 23)
    index = ModelIndex.of(Model(network()))
    values = index.view.main.values

    assert index.is_constant(values["m"])  # stored, at any size
    assert index.is_constant(values["turned"])  # it only moves what is stored
    assert index.constants.is_constant(values["doubled"])
    assert not index.is_constant(values["doubled"])
    assert index.constant(values["doubled"]) is None


def test_a_shape_is_constant_only_where_shapes_count():
    model = network()
    (size,) = evaluated(model, "size")
    index = ModelIndex.of(Model(model))
    value = index.view.main.values["size"]

    assert not index.is_constant(value)
    assert index.shape_constants.array(value) is None  # the batch is symbolic, and Shape reads it with the rest
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    fixed = ModelIndex.of(Model(model))
    value = fixed.view.main.values["size"]
    assert not fixed.is_constant(value)
    assert np.array_equal(fixed.shape_constants.array(value), size)


@pytest.mark.parametrize(
    ("node", "inferred", "told"),
    [
        ("com.microsoft.QuantizeLinear (x, s, z)", None, TensorProto.INT8),
        ("QuantizeLinear (x, s, z)", TensorProto.INT8, TensorProto.INT8),
        ("QuantizeLinear (x, s)", TensorProto.UINT8, TensorProto.UINT8),
        ("com.microsoft.DequantizeLinear (z, s, z)", None, None),
    ],
)
def test_a_quantizer_tells_the_type_that_inference_does_not_know(node: str, inferred: int | None, told: int | None):
    text = f"g (float[2] x) => (y) <float s = {{1.0}}, int8 z = {{0}}> {{ q = {node}  y = Identity (q) }}"
    index = ModelIndex.of(Model(parsed(text)))
    value = index.view.main.values["q"]

    assert index.types.elem_type(value) == inferred
    assert index.elem_type(value) == told


@pytest.mark.parametrize("kind", sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}))
def test_real_numbers_are_those_a_model_computes_with(kind: int):
    graph = onnx.helper.make_graph([], "g", [onnx.helper.make_tensor_value_info("x", kind, [1])], [])
    index = ModelIndex.of(Model(onnx.helper.make_model(graph)))
    name = TensorProto.DataType.Name(kind)

    assert index.is_float(index.view.main.values["x"]) == (name in {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"})


def test_a_tensor_of_unknown_type_is_not_float():
    index = ModelIndex.of(Model(parsed("g (float[2] x) => (y) { u = com.microsoft.Unknown (x)  y = Identity (u) }")))

    assert index.elem_type(index.view.main.values["u"]) is None
    assert not index.is_float(index.view.main.values["u"])


def test_constants_need_no_shape_inference(monkeypatch: pytest.MonkeyPatch):
    def refuse(_: onnx.ModelProto) -> onnx.ModelProto:
        raise AssertionError("shape inference ran")

    monkeypatch.setattr(types_module, "infer_types", refuse)
    index = ModelIndex.of(Model(network()))

    assert index.constant(index.view.main.values["doubled"]) is not None
    with pytest.raises(AssertionError, match="shape inference ran"):
        _ = index.types


def test_every_part_is_computed_once(monkeypatch: pytest.MonkeyPatch):
    runs: list[onnx.ModelProto] = []
    infer = types_module.infer_types

    def count(proto: onnx.ModelProto) -> onnx.ModelProto:
        runs.append(proto)
        return infer(proto)

    monkeypatch.setattr(types_module, "infer_types", count)
    index = ModelIndex.of(Model(network()))
    for value in index.view.values():
        index.elem_type(value)
        index.shape_constants.array(value)

    assert len(runs) == 1
    assert index.qdq is index.qdq
    assert index.constants is index.constants


def test_model_and_view_are_those_given():
    model = Model(network())
    view = GraphView(model)

    assert ModelIndex.of(view).view is view
    assert ModelIndex.of(view).model is model
    assert ModelIndex.of(model).model is model
    assert [entry.node.op_type for entry in ModelIndex.of(model).qdq.nodes] == ["QuantizeLinear", "DequantizeLinear"]


def test_a_slot_names_a_tensor_of_its_own_scope():
    text = """
    g (bool c, float[2] x) => (float[2] y) {
        t = Relu (x)
        z = If (c) <
            then_branch = one () => (float[2] t) { t = Neg (x) },
            else_branch = two () => (float[2] e) { e = Abs (x) }
        >
        y = Add (t, z)
    }
    """
    index = ModelIndex.of(Model(parsed(text)))

    assert index.value(Slot((), "t")).producer.op_type == "Relu"
    assert index.value(Slot(("z.then_branch",), "t")).producer.op_type == "Neg"
    with pytest.raises(KeyError):
        index.value(Slot((), "e"))


def test_a_stored_constant_is_one_whether_or_not_its_data_is_there(tmp_path):
    model = parsed("g (float[1] x) => (y) { copy = Identity (lost)  y = Add (x, lost) }")
    tensor = model.graph.initializer.add(name="lost", data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="nowhere")
    index = ModelIndex.of(Model(model, tmp_path / "m.onnx", missing_data=frozenset({"nowhere"})))
    values = index.view.main.values

    assert (index.is_constant(values["lost"]), index.constant(values["lost"])) == (True, None)
    assert (index.is_constant(values["copy"]), index.constant(values["copy"])) == (False, None)
