"""A read-only index of a ModelProto: scopes, nodes, and for each tensor its producer and its uses.

The index follows ONNX's scoping. A name that a subgraph does not define is looked up in the enclosing scopes; a local
function sees only its own names. The index copies no tensor data and never changes the model.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import onnx

from qdqtool.models.graph.model import Model, opset_version
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.graph.scope import MAIN, ScopePath, body_path, display, function_path, node_bodies

DEFAULT_DOMAINS = frozenset({"", "ai.onnx"})
MAX_CALLS = 64
"""Attributes are resolved through at most this many nested calls of local functions."""


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """One use of a tensor: input ``index`` of ``node``."""

    node: "NodeView"
    index: int


@dataclass(slots=True, eq=False)
class Value:
    """A tensor of one scope.

    Attributes:
        name: Name of the tensor in that scope.
        scope: The scope that defines it.
        producer: The node that makes the tensor, or None.
        initializer: The constant, if the tensor is an initializer of that scope; else None.
        is_input: Whether it is a formal input of the scope.
        is_output: Whether the scope returns it. Also true if an inner subgraph returns it, which only TensorRT accepts.
        uses: Every use, in the scope and in its subgraphs, in the order of the model.
    """

    name: str
    scope: "Scope"
    producer: "NodeView | None" = None
    initializer: onnx.TensorProto | None = None
    is_input: bool = False
    is_output: bool = False
    uses: list[Use] = field(default_factory=list)

    @property
    def is_stored(self) -> bool:
        """Whether it is an initializer, or the output of a Constant."""
        return self.initializer is not None or (self.producer is not None and self.producer.is_op("Constant"))

    @property
    def qualified_name(self) -> str:
        """The scope path and the name: ``y.then_branch/w``; only the name in the main graph."""
        return f"{display(self.scope.path)}/{self.name}" if self.scope.path else self.name


@dataclass(slots=True, eq=False)
class NodeView:
    """A node with its scope and its position in the scope; ``domain`` is empty for the default domain."""

    proto: onnx.NodeProto
    scope: "Scope"
    index: int
    op_type: str = field(init=False)
    domain: str = field(init=False)

    def __post_init__(self) -> None:
        self.op_type, self.domain = self.proto.op_type, _domain(self.proto.domain)

    @property
    def label(self) -> str:
        """The name of the node for users: its own name, or ``OpType -> first output`` if it has none."""
        return self.proto.name or f"{self.op_type} -> {next((o for o in self.proto.output if o), '(no output)')}"

    @property
    def key(self) -> tuple[str, ...]:
        """The output names, which identify the node in its scope."""
        return tuple(self.proto.output)

    @property
    def is_parametric(self) -> bool:
        """Whether an attribute refers to a parameter of the local function that contains the node."""
        return any(attribute.ref_attr_name for attribute in self.proto.attribute)

    def because(self, reason: str) -> NodeReason:
        """Return the node with a reason, for a report."""
        return NodeReason(node=self.label, op_type=self.op_type, graph=display(self.scope.path), reason=reason)

    def is_op(self, *op_types: str) -> bool:
        """Return whether it is one of these operators of the default domain."""
        return not self.domain and self.op_type in op_types

    def attribute(self, name: str, default: Any = None, depth: int = MAX_CALLS) -> Any:
        """Return the value of an attribute, or ``default`` if the node does not have it.

        If the attribute refers to a parameter of a local function, return the value in the first call of the function.
        Tensor types are inferred from the first call too. ``depth`` limits how many nested calls are followed.
        """
        for attribute in self.proto.attribute:
            if attribute.name == name:
                if attribute.ref_attr_name:
                    return self.scope.argument(attribute.ref_attr_name, default, depth)
                return onnx.helper.get_attribute_value(attribute)
        return default

    def input(self, index: int) -> Value | None:
        """Return the tensor at input ``index``, or None if the input is absent or its name is undefined."""
        name = self.input_name(index)
        return self.scope.resolve(name) if name else None

    @property
    def inputs(self) -> list[Value | None]:
        """The tensors at all inputs, with None for an absent or undefined input."""
        return [self.input(index) for index in range(len(self.proto.input))]

    @property
    def outputs(self) -> list[Value | None]:
        """The tensors at all outputs, with None for an absent output."""
        return [self.output(index) for index in range(len(self.proto.output))]

    @property
    def present_inputs(self) -> list[Value]:
        """The tensors at all inputs that are present."""
        return [value for value in self.inputs if value is not None]

    @property
    def present_outputs(self) -> list[Value]:
        """The tensors at all outputs that are present."""
        return [value for value in self.outputs if value is not None]

    def input_name(self, index: int) -> str:
        """Return the name at input ``index``; empty if the input is absent."""
        return self.proto.input[index] if index < len(self.proto.input) else ""

    def output(self, index: int = 0) -> Value | None:
        """Return the tensor at output ``index``, or None if the output is absent."""
        name = self.proto.output[index] if index < len(self.proto.output) else ""
        return self.scope.values.get(name) if name else None


@dataclass(slots=True, eq=False)
class Scope:
    """The main graph, a subgraph or a local function.

    Attributes:
        path: Its scope path.
        container: The GraphProto or FunctionProto.
        parent: The scope around a subgraph; None for the main graph and for functions.
        owner: The node that a subgraph belongs to; None for other scopes.
        opset: The version of the default domain that applies.
        nodes: The nodes of the scope, in file order.
        values: The tensors that the scope defines, by name.
        calls: The nodes that call the scope, if it is a local function.
        is_function: Whether it is a local function (which has no initializers).
        in_function: Whether it is a local function or a subgraph inside one.
    """

    path: ScopePath
    container: onnx.GraphProto | onnx.FunctionProto
    parent: "Scope | None"
    owner: NodeView | None
    opset: int
    nodes: list[NodeView] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    calls: list[NodeView] = field(default_factory=list)
    is_function: bool = field(init=False)
    in_function: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_function = isinstance(self.container, onnx.FunctionProto)
        # Stored, because it is read for every node and the search up to the main graph may be long.
        self.in_function = self.is_function or (self.parent is not None and self.parent.in_function)

    def resolve(self, name: str) -> Value | None:
        """Return the tensor with the name ``name``: of this scope, otherwise of the nearest enclosing scope."""
        # Without outwards(), for speed: this is called for every input of every node.
        scope: Scope | None = self
        while scope is not None:
            value = scope.values.get(name)
            if value is not None:
                return value
            scope = scope.parent
        return None

    def outwards(self) -> "Iterator[Scope]":
        """Yield the scope, then the enclosing scopes, the nearest first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def argument(self, name: str, default: Any, depth: int) -> Any:
        """Return the value of a parameter of the local function in its first call: see :meth:`NodeView.attribute`."""
        *_, function = self.outwards()
        if not isinstance(function.container, onnx.FunctionProto):
            return default
        for attribute in function.container.attribute_proto:
            if attribute.name == name:
                default = onnx.helper.get_attribute_value(attribute)
        # A function that calls itself would pass its own parameters forever.
        return function.calls[0].attribute(name, default, depth - 1) if function.calls and depth else default

    def input_names(self) -> list[str]:
        """Names of the formal inputs."""
        return [each if isinstance(each, str) else each.name for each in self.container.input]

    def output_names(self) -> list[str]:
        """Names of the formal outputs."""
        return [each if isinstance(each, str) else each.name for each in self.container.output]


class GraphView:
    """The index of one model. After an edit, make a new one.

    Attributes:
        model: The indexed model.
        scopes: Every scope: the main graph first, owners before their subgraphs, functions last.
        functions: The local functions, by domain (empty for the default domain), name and overload.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.scopes: list[Scope] = []
        opset = model.default_opset()
        self._add_scope(MAIN, model.proto.graph, None, None, opset)
        for function in model.proto.functions:
            self._add_scope(function_path(function), function, None, None, opset_version(function, ""))
        self._by_path = {scope.path: scope for scope in self.scopes}
        for scope in self.scopes:
            self._add_uses(scope)
        self.functions = {
            (_domain(scope.container.domain), scope.container.name, scope.container.overload): scope
            for scope in self.scopes
            if isinstance(scope.container, onnx.FunctionProto)
        }
        for node in self.nodes() if self.functions else ():
            called = self.called(node)
            if called is not None:
                called.calls.append(node)

    @property
    def main(self) -> Scope:
        """The main graph."""
        return self.scopes[0]

    def scope(self, path: ScopePath) -> Scope:
        """Return the scope with this path."""
        return self._by_path[path]

    def called(self, node: NodeView) -> Scope | None:
        """Return the local function that a node calls, or None if it calls none."""
        return self.functions.get((node.domain, node.op_type, node.proto.overload))

    def nodes(self) -> Iterator[NodeView]:
        """Yield every node of every scope."""
        for scope in self.scopes:
            yield from scope.nodes

    def values(self) -> Iterator[Value]:
        """Yield every named tensor of every scope."""
        for scope in self.scopes:
            yield from scope.values.values()

    def _add_scope(
        self,
        path: ScopePath,
        container: onnx.GraphProto | onnx.FunctionProto,
        parent: Scope | None,
        owner: NodeView | None,
        opset: int,
    ) -> None:
        scope = Scope(path, container, parent, owner, opset)
        self.scopes.append(scope)
        _define_values(scope)
        for index, proto in enumerate(container.node):
            node = NodeView(proto, scope, index)
            scope.nodes.append(node)
            for name in filter(None, proto.output):
                _value(scope, name).producer = node
        for name in scope.output_names():
            value = scope.resolve(name)
            if value is not None:
                value.is_output = True
        for node in scope.nodes:
            for attribute, graph in node_bodies(node.proto):
                self._add_scope(body_path(path, node.proto, attribute), graph, scope, node, opset)

    def _add_uses(self, scope: Scope) -> None:
        for node in scope.nodes:
            for index, name in enumerate(node.proto.input):
                value = scope.resolve(name) if name else None
                if value is not None:
                    value.uses.append(Use(node, index))


def _domain(domain: str) -> str:
    return "" if domain in DEFAULT_DOMAINS else domain


def _define_values(scope: Scope) -> None:
    for name in scope.input_names():
        _value(scope, name).is_input = True
    if isinstance(scope.container, onnx.GraphProto):
        for tensor in scope.container.initializer:
            _value(scope, tensor.name).initializer = tensor
        for sparse in scope.container.sparse_initializer:
            _value(scope, sparse.values.name)


def _value(scope: Scope, name: str) -> Value:
    return scope.values.setdefault(name, Value(name, scope))
