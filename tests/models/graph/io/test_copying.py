"""Copies without some initializers are what a copy and then a removal give, byte for byte."""

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.models.graph.io.copying import KEPT_BYTES, copy_fields, copy_model, has_unknown_fields, without_weights
from qdqtool.models.graph.io.tensors import is_external, iter_tensors

UNKNOWN = b"\xba\x3e\x03new"
"""Field 999 with three bytes: of a version of ONNX that is yet to come."""
RICH = rich_model(sparse=True)
NAMES = [tensor.name for tensor in RICH.graph.initializer]


def removed(proto, dropped):
    """The whole copy, less the initializers."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    kept = [tensor for tensor in copy.graph.initializer if tensor.name not in dropped]
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(kept)
    return copy


def of_later_version(proto, where):
    """The model with a field that this version of onnx does not know, in the model or in its graph."""
    later = onnx.ModelProto()
    later.CopyFrom(proto)
    target = later if where == "model" else later.graph
    target.MergeFromString(UNKNOWN)
    return later


@given(st.sets(st.sampled_from([*NAMES, "absent"])))
def test_everything_but_the_dropped_initializers_is_copied(dropped):
    before = RICH.SerializeToString(deterministic=True)
    copy = copy_model(RICH, dropped)
    assert copy.SerializeToString(deterministic=True) == removed(RICH, dropped).SerializeToString(deterministic=True)
    assert RICH.SerializeToString(deterministic=True) == before


def test_the_copy_shares_nothing_with_the_model():
    proto = conv_model()
    copy = copy_model(proto, {"w"})
    copy.graph.node[0].name = "changed"
    copy.graph.initializer[0].name = "changed"
    copy.opset_import[0].version = 3
    assert proto == conv_model()


@pytest.mark.parametrize("where", ["model", "graph"])
def test_fields_of_later_versions_are_kept_with_every_initializer(where):
    later = of_later_version(conv_model(), where)
    copy = copy_model(later, {"w"})
    assert copy.SerializeToString(deterministic=True) == later.SerializeToString(deterministic=True)
    assert UNKNOWN in copy.SerializeToString()


@pytest.mark.parametrize("where", ["model", "graph"])
def test_fields_of_later_versions_are_noticed(where):
    later = of_later_version(conv_model(), where)
    assert has_unknown_fields(later if where == "model" else later.graph)
    assert not has_unknown_fields(conv_model())


def test_one_field_is_left_out_and_the_rest_copied():
    target = onnx.GraphProto()
    copy_fields(RICH.graph, target, "node")
    expected = onnx.GraphProto()
    expected.CopyFrom(RICH.graph)
    expected.ClearField("node")
    assert target == expected


# Models without their weights keep every name, type and shape, and the small constants that shapes rest on.


def large(name="large", elements=KEPT_BYTES):
    return numpy_helper.from_array(np.ones(elements, np.float32), name)


def with_body(tensor):
    """A model whose If has the tensor in both branches."""
    nodes = [helper.make_node("Identity", [tensor.name], ["made"])]
    outputs = [helper.make_tensor_value_info("made", TensorProto.FLOAT, None)]
    branch = helper.make_graph(nodes, "branch", [], outputs, [tensor])
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("c", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph)


def test_a_model_of_small_constants_keeps_all_but_training_and_sparse_weights():
    proto = rich_model(sparse=True)
    proto.graph.initializer[0].raw_data = proto.graph.initializer[0].raw_data[:8]
    light = without_weights(proto)
    expected = onnx.ModelProto()
    expected.CopyFrom(proto)
    expected.ClearField("training_info")
    expected.graph.ClearField("sparse_initializer")
    for index, tensor in enumerate(proto.graph.initializer):
        if tensor.ByteSize() > KEPT_BYTES:
            expected.graph.initializer[index].CopyFrom(light.graph.initializer[index])
    assert light == expected


@pytest.mark.parametrize("data_type", sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}))
@pytest.mark.parametrize("elements", [1, 4 * KEPT_BYTES, 4 * KEPT_BYTES + 1])
def test_data_is_left_out_for_its_bytes_whatever_its_type(data_type, elements):
    """The number of elements tells it of large tensors, so that protobuf need not make the bytes of all weights."""
    proto = conv_model()
    values = [b"a"] * elements if data_type == TensorProto.STRING else np.zeros(elements)
    proto.graph.initializer.append(helper.make_tensor("t", data_type, [elements], values))
    given, found = (model.graph.initializer[-1] for model in (proto, without_weights(proto)))
    assert is_external(found) == (given.ByteSize() > KEPT_BYTES)
    assert (found == given) != is_external(found)


@pytest.mark.parametrize("in_body", [False, True])
def test_a_large_initializer_keeps_name_type_and_shape_alone(in_body):
    if in_body:
        proto = with_body(large())
    else:
        proto = conv_model()
        proto.graph.initializer.append(large())
    found = [tensor for tensor in iter_tensors(without_weights(proto)) if tensor.name == "large"]
    assert len(found) == (2 if in_body else 1)
    for tensor in found:
        assert (tensor.data_type, list(tensor.dims)) == (TensorProto.FLOAT, [KEPT_BYTES])
        assert is_external(tensor)
        assert tensor.ByteSize() < 100


def test_the_limit_is_in_bytes_of_the_whole_tensor():
    sizes = {elements: large("w", elements).ByteSize() for elements in (200, 300)}
    assert sizes[200] < KEPT_BYTES < sizes[300]
    for elements in sizes:
        proto = conv_model()
        proto.graph.initializer.append(large("w", elements))
        assert is_external(without_weights(proto).graph.initializer[-1]) == (elements == 300)


def test_external_weights_are_left_out_whatever_their_size():
    proto = conv_model()
    tensor = proto.graph.initializer.add(name="e", data_type=TensorProto.INT8, dims=[2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    light = without_weights(proto).graph.initializer[-1]
    assert [(entry.key, entry.value) for entry in light.external_data] == [("location", "left-out")]
    assert list(light.dims) == [2]


def test_shapes_are_inferred_as_from_the_whole_model():
    """A Reshape to 2 x 1024 by a stored shape, behind a large weight that only has to be there."""
    nodes = [helper.make_node("Add", ["x", "large"], ["a"]), helper.make_node("Reshape", ["a", "shape"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2048])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [large(elements=2048), numpy_helper.from_array(np.int64([2, 1024]), "shape")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    inferred = [onnx.shape_inference.infer_shapes(model).graph.output[0] for model in (proto, without_weights(proto))]
    assert inferred[0] == inferred[1]
    assert [dim.dim_value for dim in inferred[1].type.tensor_type.shape.dim] == [2, 1024]


def test_the_model_itself_is_not_changed():
    proto = with_body(large())
    before = proto.SerializeToString()
    without_weights(proto)
    assert proto.SerializeToString() == before
