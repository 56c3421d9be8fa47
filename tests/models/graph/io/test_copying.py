"""Copies without some initializers are what a copy and then a removal give, byte for byte."""

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.rich_model import rich_model
from support.small import conv_model

from qdqtool.models.graph.io.copying import copy_fields, copy_model, has_unknown_fields

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
