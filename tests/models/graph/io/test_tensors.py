"""Tensors and arrays, against onnx's own helpers: every type, wherever the bytes are."""

import numpy as np
import onnx
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.io import tensors
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import BytesPlace, Payload
from qdqtool.models.scratch import ScratchFolder

TYPES = [
    value
    for name, value in TensorProto.DataType.items()
    if name not in {"UNDEFINED", "STRING"} and value in helper.get_all_tensor_dtypes()
]
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
EMPTY = Model(onnx.ModelProto())


def values_of(onnx_type, shape, seed=0):
    """Zeros and ones in the type's own NumPy type (NaN and one in the type that has no zero)."""
    drawn = np.random.default_rng(seed).integers(0, 2, shape)
    return np.asarray(drawn).astype(helper.tensor_dtype_to_np_dtype(onnx_type))


def kept_elsewhere(kind, tensor, folder):
    """The same tensor, with its bytes in an external file, on demand, or offloaded; and the model that has them."""
    raw, model = tensor.raw_data, Model(onnx.ModelProto(), folder / "m.onnx")
    moved = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    if kind == "external":
        (folder / "w.bin").write_bytes(b"\x99" * 5 + raw)
        moved.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "w.bin"), ("offset", "5"), ("length", str(len(raw)))):
            moved.external_data.add(key=key, value=value)
        return model, moved
    place = None
    if kind == "spilled":
        offload = ScratchFolder()
        (offload.path / "w.bin").write_bytes(b"\x99" * 5 + raw)
        place = BytesPlace(offload, "w.bin", 5)
    tensors.set_pending(model, moved, "key", Payload(len(raw), lambda: raw, place))
    return model, moved


def all_messages(message):
    """Every TensorProto inside a message, found by protobuf's descriptors and not by knowledge of ONNX."""
    if isinstance(message, TensorProto):
        yield message
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for each in [value] if isinstance(value, Message) else value:
                yield from all_messages(each)


@pytest.mark.parametrize("sparse", [False, True])
def test_every_tensor_of_every_scope_is_found_once(sparse):
    proto = rich_model(sparse=sparse)
    expected = sorted(tensor.SerializeToString() for tensor in all_messages(proto))
    assert sorted(tensor.SerializeToString() for tensor in tensors.iter_tensors(proto)) == expected
    assert len(expected) > 10


def test_tensors_of_training_graphs_are_found():
    proto = conv_model()
    training = proto.training_info.add()
    for graph, name in ((training.initialization, "first"), (training.algorithm, "second")):
        graph.initializer.append(numpy_helper.from_array(np.float32([1]), name))
    assert [tensor.name for tensor in tensors.iter_tensors(proto)][-2:] == ["first", "second"]


def test_lists_of_tensors_are_tensors_too():
    proto = conv_model()
    both = [numpy_helper.from_array(np.float32([value]), str(value)) for value in (1, 2)]
    proto.graph.node[0].attribute.append(helper.make_attribute("list", both))
    assert {"1", "2"} <= {tensor.name for tensor in tensors.iter_tensors(proto)}


@pytest.mark.parametrize("onnx_type", TYPES, ids=TensorProto.DataType.Name)
@given(SHAPES, st.integers(0, 2**20))
def test_a_tensor_has_the_bytes_that_onnx_gives_it_and_reads_back(onnx_type, shape, seed):
    values = values_of(onnx_type, shape, seed)
    made = tensors.make_tensor("w", values, onnx_type)
    assert made == numpy_helper.from_array(values, "w")
    assert tensors.nbytes(made) == len(made.raw_data)
    back = tensors.read_array(EMPTY, made)
    assert (back.dtype, back.shape) == (values.dtype, shape)
    assert back.tobytes() == values.tobytes()
    assert tensors.read_bytes(EMPTY, made) == made.raw_data


@pytest.mark.parametrize("onnx_type", TYPES, ids=TensorProto.DataType.Name)
@pytest.mark.parametrize("kind", ["external", "pending", "spilled"])
@pytest.mark.parametrize("shape", [(3, 5), (), (0, 2)])
def test_bytes_outside_the_model_read_as_those_inside(kind, onnx_type, shape, tmp_path):
    inside = tensors.make_tensor("w", values_of(onnx_type, shape, 3), onnx_type)
    model, outside = kept_elsewhere(kind, inside, tmp_path)
    found = tensors.read_array(model, outside)
    assert (found.dtype, found.shape) == (numpy_helper.to_array(inside).dtype, shape)
    assert found.tobytes() == numpy_helper.to_array(inside).tobytes()
    assert tensors.read_bytes(model, outside) == inside.raw_data
    assert tensors.is_external(outside)
    assert tensors.is_pending(outside) == (kind != "external")


@pytest.mark.parametrize("onnx_type", [TensorProto.FLOAT, TensorProto.INT8, TensorProto.FLOAT16, TensorProto.INT64])
def test_typed_fields_have_the_bytes_of_raw_data(onnx_type):
    values = values_of(onnx_type, (2, 3), 5)
    typed = helper.make_tensor("w", onnx_type, values.shape, values.ravel())
    assert not typed.HasField("raw_data")
    np.testing.assert_array_equal(tensors.read_array(EMPTY, typed), values)
    assert tensors.read_bytes(EMPTY, typed) == numpy_helper.from_array(values).raw_data


def test_external_weights_are_mapped_and_cannot_be_written(tmp_path):
    inside = tensors.make_tensor("w", np.ones((4, 4)), TensorProto.FLOAT)
    model, outside = kept_elsewhere("external", inside, tmp_path)
    found = tensors.read_array(model, outside)
    base = found
    while base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 2


def test_an_empty_file_holds_the_tensor_without_elements(tmp_path):
    inside = tensors.make_tensor("w", np.zeros((0, 3)), TensorProto.FLOAT)
    model, outside = kept_elsewhere("external", inside, tmp_path)
    (tmp_path / "w.bin").write_bytes(b"")
    outside.external_data[1].value = "0"
    assert tensors.read_array(model, outside).shape == (0, 3)


def test_strings_have_no_raw_data():
    tensor = helper.make_tensor("s", TensorProto.STRING, [2], ["a", "bc"])
    assert tensors.nbytes(tensor) == 0
    assert tensors.read_array(EMPTY, tensor).tolist() == ["a", "bc"]


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], raw_data=b"\0" * 8),
        TensorProto(name="w", data_type=TensorProto.INT64, dims=[3], raw_data=b"\0" * 8),
        TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, -1], raw_data=b"\0" * 7),
        TensorProto(name="w", data_type=99, dims=[1], raw_data=b"\0"),
    ],
    ids=["too short", "too short for onnx", "no whole element", "unknown type"],
)
def test_bytes_that_do_not_fit_shape_and_type_are_an_error_with_the_name(tensor):
    with pytest.raises(ModelError, match="initializer 'w' cannot be read"):
        tensors.read_array(EMPTY, tensor)


def test_the_size_of_an_unknown_type_is_an_error_with_its_number():
    with pytest.raises(ModelError, match="tensor 'w' has data type 99, which ONNX does not define"):
        tensors.nbytes(TensorProto(name="w", data_type=99, dims=[1]))


def test_entries_of_external_data_are_found_by_key_and_empty_when_absent():
    tensor = TensorProto()
    tensor.external_data.add(key="offset", value="64")
    assert [tensors.external_entry(tensor, key) for key in ("offset", "location")] == ["64", ""]


def test_a_pending_tensor_replaces_what_external_data_there_was():
    model = Model(onnx.ModelProto())
    tensor = TensorProto(name="w", data_type=TensorProto.INT8, dims=[2])
    tensor.external_data.add(key="location", value="old.bin")
    payload = Payload(2, lambda: b"\1\2")
    tensors.set_pending(model, tensor, "k", payload)
    assert tensors.payload_of(model, tensor) is payload
    assert tensors.read_array(model, tensor).tolist() == [1, 2]
    assert "old.bin" not in str(tensor)


def test_a_scalar_has_one_element():
    assert tensors.element_count(TensorProto()) == 1
    assert tensors.element_count(TensorProto(dims=[2, 0])) == 0


def named(name: str) -> TensorProto:
    return numpy_helper.from_array(np.zeros(1, np.int64), name)


def sparse(name: str) -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(values=named(f"{name} values"), indices=named(f"{name} indices"), dims=[4])


def test_every_tensor_that_a_runtime_may_read_is_seen() -> None:
    """Each of these may have external data, whose place is checked only if the tensor is seen."""
    body = helper.make_graph([helper.make_node("Constant", [], ["c"], value=named("of a body"))], "b", [], [])
    nodes = [
        helper.make_node("Constant", [], ["s"], sparse_value=sparse("one")),
        helper.make_node("Other", [], ["o"], domain="other", several=[named("of a list")]),
        helper.make_node("Other", [], ["p"], domain="other", several=[sparse("of many")]),
    ]
    graph = helper.make_graph(nodes, "g", [], [], [named("initializer")], sparse_initializer=[sparse("initializer")])
    function = onnx.FunctionProto(name="f", domain="other")
    function.attribute_proto.append(helper.make_attribute("t", named("default")))
    function.attribute_proto.append(helper.make_attribute("s", sparse("default")))
    nested = helper.make_graph([helper.make_node("If", ["c"], ["i"], then_branch=body)], "n", [], [])
    function.attribute_proto.append(helper.make_attribute("g", nested))
    reference = helper.make_node("Constant", [], ["r"])
    reference.attribute.add(name="value", type=onnx.AttributeProto.TENSOR, ref_attr_name="t")
    function.node.append(reference)
    model = helper.make_model(graph, functions=[function])
    training = model.training_info.add()
    training.algorithm.initializer.append(named("training"))
    assert sorted(tensor.name for tensor in tensors.iter_tensors(model)) == sorted(
        [
            "initializer",
            *(
                f"{owner} {part}"
                for owner in ("initializer", "one", "of many", "default")
                for part in ("values", "indices")
            ),
            "of a list",
            "default",
            "of a body",
            "training",
        ]
    )
