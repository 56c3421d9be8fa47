"""Inspect on random models: every count is what a walk over the nodes counts."""

from collections import Counter
from collections.abc import Iterator

import numpy as np
import onnx
from hypothesis import given
from onnx import TensorProto
from support.random_models import brute, float_models, quantized_models, tried_on

from qdqtool.jobs.inspect import inspect_model

PRODUCTS = {"Conv": (0, 1), "ConvTranspose": (0, 1), "Gemm": (0, 1), "MatMul": (0, 1)}

Key = tuple[str, str, str, str]


@tried_on(40)
@given(quantized_models())
def test_every_group_of_pairs_is_counted(model):
    report = inspect_model(model)
    found = Counter({(g.op_type, g.kind, g.format, g.granularity): g.count for g in report.groups})
    expected = list(groups(model.proto))
    assert found == Counter(key for key, _ in expected)
    for group in report.groups:
        key = (group.op_type, group.kind, group.format, group.granularity)
        scales = [scale for other, scale in expected if other == key and scale is not None]
        assert group.scale_min == (min(float(scale.min()) for scale in scales) if scales else None)
        assert group.scale_max == (max(float(scale.max()) for scale in scales) if scales else None)


@tried_on(20)
@given(quantized_models() | float_models())
def test_nodes_bodies_types_and_interface_are_counted(model):
    report, proto = inspect_model(model, tensors=True), model.proto
    assert report.nodes == len(brute.all_nodes(proto))
    assert report.scopes == len(list(brute.all_graphs(proto))) - 1
    assert report.opset_imports == {"ai.onnx": proto.opset_import[0].version}
    assert [each.name for each in report.inputs] == [each.name for each in proto.graph.input]
    assert [each.name for each in report.outputs] == [each.name for each in proto.graph.output]
    sizes = Counter[str]()
    for tensor in brute.stored(proto).values():
        sizes[TensorProto.DataType.Name(tensor.data_type).lower()] += len(tensor.raw_data)
    assert report.weight_bytes == sizes
    readers = brute.readers(proto)
    quantized = {name for name, nodes in readers.items() if any(node.op_type == brute.QUANTIZE for node in nodes)}
    assert {each.name for each in report.tensors if each.quantized} == quantized
    types = brute.elem_types(proto)
    for each in report.tensors:
        assert each.type == TensorProto.DataType.Name(types[each.name]).lower()


@tried_on(30)
@given(quantized_models())
def test_products_whose_operands_are_quantized_are_counted(model):
    expected = dict[str, list[tuple[bool, ...]]]()
    made_by = brute.producers(model.proto)
    for node in brute.all_nodes(model.proto):
        if node.op_type in PRODUCTS:
            read = [made_by.get(node.input[position]) for position in PRODUCTS[node.op_type]]
            expected.setdefault(node.op_type, []).append(tuple(is_dequantized(each, made_by) for each in read))
    found = {each.op_type: (each.total, each.quantized, each.partly) for each in inspect_model(model).coverage}
    assert found == {
        op_type: (len(reads), sum(map(all, reads)), sum(any(read) and not all(read) for read in reads))
        for op_type, reads in expected.items()
    }


def is_dequantized(node: onnx.NodeProto | None, made_by: dict[str, onnx.NodeProto]) -> bool:
    while node is not None and (node.op_type in MOVERS or node.op_type == "Cast"):
        node = made_by.get(node.input[0])
    return node is not None and node.op_type == brute.DEQUANTIZE


MOVERS = {
    "Flatten",
    "Gather",
    "GlobalMaxPool",
    "Identity",
    "MaxPool",
    "Reshape",
    "Slice",
    "Split",
    "Transpose",
    "Unsqueeze",
}


def groups(proto: onnx.ModelProto) -> Iterator[tuple[Key, np.ndarray | None]]:
    """Operator, kind, format and granularity of every Q and DQ, with its scale where that is constant."""
    made_by, readers, types = brute.producers(proto), brute.readers(proto), brute.elem_types(proto)
    returned, stored = brute.returned(proto), brute.constants(proto)
    for node in filter(brute.is_qdq, brute.all_nodes(proto)):
        source = made_by.get(node.input[0])
        behind_q = node.op_type == brute.DEQUANTIZE and source is not None and source.op_type == brute.QUANTIZE
        origin = source.input[0] if behind_q else node.input[0]
        kind = "weight" if origin in stored else "activation"
        reads = readers.get(node.output[0], [])
        alone = node.op_type == brute.DEQUANTIZE and not behind_q and node.output[0] not in returned
        if alone and reads and all(brute.is_qdq(each) and each.input[1] == node.output[0] for each in reads):
            kind = "scale"
        codes = types[node.output[0] if node.op_type == brute.QUANTIZE else node.input[0]]
        name = TensorProto.DataType.Name(codes).lower()
        scale = brute.folded(proto, node.input[1])
        yield (node.op_type, kind, name, granularity(node, scale)), scale


def granularity(node: onnx.NodeProto, scale: np.ndarray | None) -> str:
    """The granularity of a node; computed scales in drawn models are of whole tensors."""
    if brute.attribute(node, "block_size"):
        return "blocked"
    return "per-axis" if scale is not None and scale.size > 1 else "per-tensor"
