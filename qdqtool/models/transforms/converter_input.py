"""Make a stand-in of one graph for onnx's version converter, with safe names and without large constants.

The converter invents tensor names such as ``_v_4`` and ``<output>_intermediate`` without checking whether the model
has them already. In the stand-in every tensor of every scope has a unique name that the converter cannot invent.
"""

from collections import ChainMap, Counter
from dataclasses import dataclass, field

import onnx
from onnx import AttributeProto, TensorProto

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope
from qdqtool.models.graph.io.tensors import is_external, is_pending, nbytes, read_bytes
from qdqtool.models.graph.scope import body_path, display, node_bodies

KEPT_BYTES = 1024
"""Constants of at most this many bytes keep their data: the converter reads shapes, axes and scales."""

_Names = ChainMap[str, str]
_GRAPHS = {AttributeProto.GRAPH, AttributeProto.GRAPHS}


@dataclass(slots=True, eq=False)
class ConverterInput:
    """A graph with invented names.

    Attributes:
        graph: The graph for the converter.
        names: The real name by invented name.
        nodes: The real node of each stand-in, by its invented outputs.
    """

    graph: onnx.GraphProto = field(default_factory=onnx.GraphProto)
    names: dict[str, str] = field(default_factory=dict)
    nodes: dict[NodeKey, NodeView] = field(default_factory=dict)


def encode(view: GraphView, scope: Scope) -> ConverterInput:
    """Make the stand-in of a graph with all bodies that the converter converts: those of the default domain's nodes.

    Args:
        view: The index of the model.
        scope: The main graph, a local function, or a body of a node of another domain. Tensors of enclosing scopes
            become inputs.
    """
    encoder = _Encoder(view)
    encoder.encode(scope, encoder.prepared.graph, ChainMap())
    return encoder.prepared


class _Encoder:
    def __init__(self, view: GraphView) -> None:
        self.prepared = ConverterInput(onnx.GraphProto(name="main"))
        self._view = view
        self._captured: dict[str, str] = {}

    def encode(self, scope: Scope, graph: onnx.GraphProto, outer: _Names) -> None:
        _check_single_definitions(scope)
        names = outer.new_child({name: self._make_up(name) for name in scope.values})
        self._encode_interface(scope, graph, names)
        for node in scope.nodes:
            self._encode_node(node, graph.node.add(), names)

    def _make_up(self, real: str) -> str:
        made_up = f"tensor{len(self.prepared.names)}"
        self.prepared.names[made_up] = real
        return made_up

    def _resolve(self, name: str, scope: Scope, names: _Names) -> str:
        if not name:
            return ""
        if name in names:
            return names[name]
        if scope.resolve(name) is None:
            raise ModelError(f"{_where(scope)} reads tensor '{name}', which nothing defines")
        if name not in self._captured:
            self._captured[name] = self._make_up(name)
            self.prepared.graph.input.add(name=self._captured[name])
        return self._captured[name]

    def _encode_interface(self, scope: Scope, graph: onnx.GraphProto, names: _Names) -> None:
        container = scope.container
        if isinstance(container, onnx.FunctionProto):
            graph.input.extend(onnx.ValueInfoProto(name=names[name]) for name in container.input)
            graph.output.extend(
                onnx.ValueInfoProto(name=self._resolve(name, scope, names)) for name in container.output
            )
            return
        graph.name = container.name or "body"
        for source, target in ((container.input, graph.input), (container.output, graph.output)):
            for info in source:
                target.add(name=self._resolve(info.name, scope, names), type=info.type)
        for info in container.value_info:
            # Files often describe tensors that they no longer have.
            if info.name in scope.values:
                graph.value_info.add(name=names[info.name], type=info.type)
        for tensor in container.initializer:
            self._encode_tensor(tensor, graph.initializer.add())
            graph.initializer[-1].name = names[tensor.name]

    def _encode_node(self, node: NodeView, target: onnx.NodeProto, names: _Names) -> None:
        source, scope = node.proto, node.scope
        target.op_type, target.domain, target.overload = source.op_type, node.domain, source.overload
        target.input.extend(self._resolve(name, scope, names) for name in source.input)
        target.output.extend(self._resolve(name, scope, names) for name in source.output)
        self.prepared.nodes[tuple(target.output)] = node
        for attribute in source.attribute:
            if attribute.type not in _GRAPHS:
                self._encode_attribute(attribute, target.attribute.add())
        if not node.domain:
            for name, _ in node_bodies(source):
                body = target.attribute.add(name=name, type=AttributeProto.GRAPH).g
                self.encode(self._view.scope(body_path(scope.path, source, name)), body, names)

    def _encode_attribute(self, source: AttributeProto, target: AttributeProto) -> None:
        if source.type != AttributeProto.TENSOR:
            target.CopyFrom(source)
            return
        target.name, target.type, target.ref_attr_name = source.name, source.type, source.ref_attr_name
        self._encode_tensor(source.t, target.t)

    def _encode_tensor(self, source: TensorProto, target: TensorProto) -> None:
        small = nbytes(source) <= KEPT_BYTES and not is_pending(source)
        if small and not is_external(source):
            target.CopyFrom(source)
            return
        target.name, target.data_type = source.name, source.data_type
        target.dims.extend(source.dims)
        if small:
            target.raw_data = read_bytes(self._view.model, source)
        else:
            target.data_location = TensorProto.EXTERNAL
            target.external_data.add(key="location", value="left-out")


def _check_single_definitions(scope: Scope) -> None:
    made = Counter(name for node in scope.nodes for name in node.key if name)
    given = [name for name, value in scope.values.items() if value.is_input or value.initializer is not None]
    twice = next((name for name, count in (made + Counter(given)).items() if count > 1), None)
    if twice is not None:
        raise ModelError(f"{_where(scope)} defines tensor '{twice}' twice")


def _where(scope: Scope) -> str:
    return display(scope.path) or "the main graph"
