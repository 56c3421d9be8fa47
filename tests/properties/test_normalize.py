"""Normalize on random models whose Q/DQ are written in foreign ways: Q/DQ of ONNX that compute the same."""

import onnx
from hypothesis import assume, given
from onnx import TensorProto, helper
from support.random_models import brute, drawn_feeds, quantized_models, tried_on, whole
from support.random_models.equal import assert_same_outputs

from qdqtool.jobs.normalize import normalized_model
from qdqtool.models.graph.model import Model
from qdqtool.samples.request import DataRequest


@tried_on(15)
@given(quantized_models())
def test_outputs_stay(model):
    proto = whole(normalized_model(model, DataRequest()).model)
    onnx.checker.check_model(proto, full_check=True)
    assert list(proto.graph.output) == list(model.proto.graph.output)
    assert_same_outputs(proto, model.proto, drawn_feeds(model))


@tried_on(15)
@given(quantized_models())
def test_pairs_of_microsoft_become_pairs_of_onnx(model):
    foreign = in_microsoft_domain(model.proto)
    assume(len(foreign.opset_import) > 1)
    normalized = normalized_model(Model(foreign), DataRequest())
    proto = whole(normalized.model)
    assert not any(node.domain for node in brute.all_nodes(proto))
    assert_same_outputs(proto, foreign, drawn_feeds(model))


def in_microsoft_domain(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with every Q and DQ of int8 and uint8 with a zero point in com.microsoft, where that has it."""
    copy, types = brute.copied(proto), brute.elem_types(proto)
    for node in filter(brute.is_qdq, brute.all_nodes(copy)):
        plain = len(node.input) > 2 and types[node.input[2]] in PLAIN and types[node.input[1]] == TensorProto.FLOAT
        if plain and not brute.attribute(node, "block_size"):
            node.domain = "com.microsoft"
    if any(node.domain for node in brute.all_nodes(copy)):
        copy.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return copy


PLAIN = {TensorProto.INT8, TensorProto.UINT8}
