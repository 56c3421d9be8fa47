"""Choose unused names for new tensors and nodes. The same requests for the same model give the same names.

Names follow ONNX Runtime's quantizer, which users know: ``<t>_QuantizeLinear`` and ``<t>_DequantizeLinear`` for nodes,
with ``_Output`` for outputs; ``<t>_scale``, ``<t>_zero_point`` and ``<t>_quantized`` for constants.
"""

from collections.abc import Iterator, Mapping

import onnx

from qdqtool.models.graph.edits.copy_changes import defined_names
from qdqtool.models.graph.index.view import GraphView, Scope
from qdqtool.models.graph.scope import node_bodies


def rename_in_graph(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename tensors in place wherever ``graph`` defines, reads or annotates them.

    Args:
        graph: The graph.
        names: New name by old name. If a subgraph defines an old name itself, that tensor keeps its name.
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
        own = defined_names(body)
        rename_in_graph(body, {old: new for old, new in names.items() if old not in own})


class Namer:
    """Chooses names that the model does not use, and remembers them.

    Args:
        view: The index of the model. A new name is unused in all scopes, so that it never hides another tensor.
    """

    def __init__(self, view: GraphView) -> None:
        self._tensors = _Pool({name for scope in view.scopes for name in _tensor_names(scope)})
        self._nodes = _Pool({node.proto.name for node in view.nodes()})

    def tensor(self, base: str) -> str:
        """Return ``base``, or ``base_1``, ``base_2``, … if a tensor of any scope has that name already."""
        return self._tensors.take(base)

    def node(self, base: str) -> str:
        """Return ``base``, or ``base_1``, ``base_2``, … if a node of any scope has that name already."""
        return self._nodes.take(base)


class _Pool:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken | {""}
        self._next: dict[str, int] = {}

    def take(self, base: str) -> str:
        name, number = base, self._next.get(base, 0)
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._next[base] = number
        self._taken.add(name)
        return name


def _tensor_names(scope: Scope) -> Iterator[str]:
    yield from scope.values
    yield from scope.output_names()
    for node in scope.nodes:
        # A malformed model may read an undefined name.
        yield from node.proto.input
