"""Check that the strings of a model are UTF-8.

Protobuf returns a string that is not UTF-8 as bytes, and code that compares, sorts or prints it fails far from the
cause. A model with such a string is refused before other code reads it.
"""

from collections.abc import Iterable, Iterator

import onnx

from qdqtool.errors import ModelError
from qdqtool.models.graph.scope import node_bodies


def check_text(proto: onnx.ModelProto) -> None:
    """Refuse a model with a name or note that is not UTF-8."""
    _require("the model", _model_strings(proto))
    _check_graph("the main graph", proto.graph)
    for training in proto.training_info:
        _check_graph("a training graph", training.initialization)
        _check_graph("a training graph", training.algorithm)
    for function in proto.functions:
        where = "a local function"
        _require(where, (function.name, function.domain, function.overload, function.doc_string))
        _require(where, (*function.input, *function.output, *function.attribute))
        _require(where, _notes(function.metadata_props))
        _require(where, (entry.domain for entry in function.opset_import))
        _check_values(where, function.value_info)
        _check_nodes(where, function.node)


def _check_graph(where: str, graph: onnx.GraphProto) -> None:
    _require(where, (graph.name, graph.doc_string, *_notes(graph.metadata_props)))
    for values in (graph.input, graph.output, graph.value_info):
        _check_values(where, values)
    for tensor in graph.initializer:
        _check_tensor(where, tensor)
    for sparse in graph.sparse_initializer:
        _check_tensor(where, sparse.values)
        _check_tensor(where, sparse.indices)
    for annotation in graph.quantization_annotation:
        _require(where, (annotation.tensor_name, *_notes(annotation.quant_parameter_tensor_names)))
    _check_nodes(where, graph.node)


def _check_nodes(where: str, nodes: Iterable[onnx.NodeProto]) -> None:
    for index, node in enumerate(nodes):
        strings = [node.name, node.op_type, node.domain, node.overload, node.doc_string, *node.input, *node.output]
        for attribute in node.attribute:
            strings += (attribute.name, attribute.ref_attr_name, attribute.doc_string)
            if attribute.type == onnx.AttributeProto.TENSOR:
                _check_tensor(f"node {index} of {where}", attribute.t)
        if node.metadata_props:
            strings += _notes(node.metadata_props)
        try:
            # join raises TypeError for bytes, much faster than a check of each string.
            "".join(strings)
        except TypeError:
            _require(f"node {index} of {where}", strings)
        for _, graph in node_bodies(node):
            _check_graph(f"the body of node {index} of {where}", graph)


def _check_tensor(where: str, tensor: onnx.TensorProto) -> None:
    strings = [tensor.name, tensor.doc_string]
    if tensor.external_data:
        strings += _notes(tensor.external_data)
    if tensor.metadata_props:
        strings += _notes(tensor.metadata_props)
    try:
        "".join(strings)
    except TypeError:
        _require(where, strings)


def _check_values(where: str, values: Iterable[onnx.ValueInfoProto]) -> None:
    for value in values:
        dims = value.type.tensor_type.shape.dim
        strings = [value.name, value.doc_string, value.type.denotation, *(dim.dim_param for dim in dims)]
        if value.metadata_props:
            strings += _notes(value.metadata_props)
        try:
            "".join(strings)
        except TypeError:
            _require(where, strings)


def _model_strings(proto: onnx.ModelProto) -> Iterator[str]:
    yield from (proto.producer_name, proto.producer_version, proto.domain, proto.doc_string)
    yield from (entry.domain for entry in proto.opset_import)
    yield from _notes(proto.metadata_props)


def _notes(entries: Iterable[onnx.StringStringEntryProto]) -> list[str]:
    return [text for entry in entries for text in (entry.key, entry.value)]


def _require(where: str, strings: Iterable[object]) -> None:
    for text in strings:
        if isinstance(text, bytes):
            raise ModelError(
                f"{where} has a name or note that is not UTF-8: {text[:40]!r}",
                hint="the file is damaged, or was written by a program with another encoding",
            )
