"""Rename tensors in a graph and its bodies, by ONNX's scoping."""

from collections.abc import Mapping

import onnx

from qdqtool.models.graph.scope import node_bodies


def rename_in_graph(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors wherever ``graph`` defines, reads or describes them, in place.

    Args:
        graph: The graph.
        names: New name by old name. A name that a body defines itself keeps its meaning there, and is not renamed.
    """
    for node in graph.node:
        _rename_in_node(node, names)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)


def _rename_in_node(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for _, body in node_bodies(node):
        own = _defined_in(body)
        rename_in_graph(body, {old: new for old, new in names.items() if old not in own})


def _defined_in(graph: onnx.GraphProto) -> set[str]:
    names = {name for node in graph.node for name in node.output}
    return names | {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
