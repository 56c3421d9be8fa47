"""Copy only the requested changes from graphsurgeon's export into the original model."""

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence
from typing import Any

import onnx

from qdqtool.models.graph.edits.batch import EditError, ScopeBatch
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.scope import node_bodies

Container = onnx.GraphProto | onnx.FunctionProto


def add_in_place(container: Container, new: Sequence[onnx.NodeProto], moved: Collection[int]) -> None:
    """Add nodes to a scope, and keep the nodes of the scope in topological order.

    A new node is placed right before the first node that reads one of its outputs, directly or in a subgraph. Without
    such a reader it is placed at the end. Existing nodes keep their positions, unless a new node or a node in ``moved``
    reads their output and comes before them.

    Args:
        container: The scope, without the new nodes.
        new: The nodes to add.
        moved: Positions of the nodes whose inputs changed, directly or in a subgraph.
    """
    count = len(container.node)
    container.node.extend(new)
    nodes = list(container.node)
    order = _Order(nodes, count, set(moved)).run()
    rearrange(container, order)


def rearrange(container: Container, order: Sequence[int]) -> None:
    """Reorder the nodes of a scope to ``order``, a permutation of their positions."""
    if list(order) == sorted(order):
        return
    # Sorting a repeated field in place moves the messages. Deleting them and adding them again would copy each node
    # with its subgraphs.
    rank = {position: place for place, position in enumerate(order)}
    positions = iter(range(len(order)))
    container.node.sort(key=lambda _: rank[next(positions)])


def free_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a subgraph reads from enclosing scopes."""
    read = {name for node in graph.node for name in names_read(node)}
    read |= {output.name for output in graph.output}
    return read - defined_names(graph)


def defined_names(graph: onnx.GraphProto) -> set[str]:
    """Return the names that a graph itself defines."""
    names = {name for node in graph.node for name in node.output} | {value.name for value in graph.input}
    sparse = (each.values for each in graph.sparse_initializer)
    return names | {tensor.name for tensor in (*graph.initializer, *sparse)}


def names_read(node: onnx.NodeProto) -> list[str]:
    """Return the names that a node reads from its scope, directly or in its subgraphs."""
    names = [name for name in node.input if name]
    for _, graph in node_bodies(node):
        names += sorted(free_names(graph))
    return names


class _Order:
    def __init__(self, nodes: list[onnx.NodeProto], count: int, moved: set[int]) -> None:
        self._nodes = nodes
        self._count = count
        self._free = moved | set(range(count, len(nodes)))
        self._makers = {name: index for index, node in enumerate(nodes) for name in node.output if name}
        self._done: dict[int, None] = {}

    def run(self) -> list[int]:
        for index in range(len(self._nodes)):
            self._put(index)
        return list(self._done)

    def _put(self, index: int) -> None:
        """Place a node, after the nodes that it depends on. The search is depth first, without recursion."""
        if index in self._done:
            return
        stack = [(index, self._awaited(index, early=False))]
        open_nodes = {index}
        while stack:
            current, awaited = stack[-1]
            maker = next(awaited, None)
            if maker is None:
                stack.pop()
                open_nodes.discard(current)
                self._done[current] = None
            elif maker in open_nodes:
                raise EditError(f"the edits make a cycle through tensor '{self._nodes[maker].output[0]}'")
            elif maker not in self._done:
                stack.append((maker, self._awaited(maker, early=True)))
                open_nodes.add(maker)

    def _awaited(self, index: int, *, early: bool) -> Iterator[int]:
        """Yield the nodes that must come before a node. For an untouched node, these are only new nodes."""
        for name in names_read(self._nodes[index]):
            maker = self._makers.get(name)
            if maker is not None and (early or index in self._free or maker >= self._count):
                yield maker


Exported = Mapping[NodeKey, onnx.NodeProto]
"""The nodes of a scope as graphsurgeon exports them, by output names."""


def copy_changes(container: Container, batch: ScopeBatch, exported: Exported, moved: Collection[NodeKey]) -> None:
    """Apply the changes of one scope to the copy of the original model."""
    _remove_nodes(container, batch.removed)
    _remove_constants(container, batch.old_initializers)
    _forget(container, batch.vanished_names())
    _set_types(container, batch.element_types)
    touched = batch.changes.keys() | set(moved)
    positions = [index for index, node in enumerate(container.node) if tuple(node.output) in touched]
    for index in positions:
        _take_node(container.node[index], batch, exported)
    new = [exported[added.outputs] for added in batch.added]
    if new or positions:
        add_in_place(container, new, positions)
    _add_constants(container, batch.new_initializers)


def _take_node(node: onnx.NodeProto, batch: ScopeBatch, exported: Exported) -> None:
    key = tuple(node.output)
    change = batch.changes.get(key)
    if change is None:
        return
    source = exported[batch.key_after(key)]
    if change.inputs:
        node.input[:] = _without_trailing_blanks(source.input)
    if change.outputs:
        node.output[:] = source.output
    if change.name is not None:
        node.name = source.name
    if change.domain is not None:
        node.domain = source.domain
    if change.op_type is not None:
        node.op_type = source.op_type
    for name in change.attributes:
        _take_attribute(node, source, name)


def _take_attribute(node: onnx.NodeProto, source: onnx.NodeProto, name: str) -> None:
    position = next((index for index, attribute in enumerate(node.attribute) if attribute.name == name), None)
    wanted = next((attribute for attribute in source.attribute if attribute.name == name), None)
    if wanted is None:
        if position is not None:
            del node.attribute[position]
    elif position is None:
        node.attribute.append(wanted)
    else:
        node.attribute[position].CopyFrom(wanted)


def _without_trailing_blanks(names: Iterable[str]) -> list[str]:
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return kept


def _remove_nodes(container: Container, removed: Collection[NodeKey]) -> None:
    for index in reversed(range(len(container.node))) if removed else ():
        if tuple(container.node[index].output) in removed:
            del container.node[index]


def _remove_constants(container: Container, names: Collection[str]) -> None:
    if isinstance(container, onnx.GraphProto) and names:
        _delete(container.initializer, [tensor.name in names for tensor in container.initializer])
        _delete(container.input, [value.name in names for value in container.input])


def _forget(container: Container, names: Collection[str]) -> None:
    """Remove types and quantization annotations of tensors that no longer exist."""
    _delete(container.value_info, [value.name in names for value in container.value_info])
    if isinstance(container, onnx.GraphProto):
        annotations = container.quantization_annotation
        _delete(annotations, [annotation.tensor_name in names for annotation in annotations])


def _set_types(container: Container, types: Mapping[str, int]) -> None:
    for value in container.value_info:
        if value.name in types and value.type.HasField("tensor_type"):
            value.type.tensor_type.elem_type = types[value.name]


def _delete(items: MutableSequence[Any], doomed: list[bool]) -> None:
    for index in reversed(range(len(doomed))):
        if doomed[index]:
            del items[index]


def _add_constants(container: Container, tensors: Collection[onnx.TensorProto]) -> None:
    if isinstance(container, onnx.GraphProto):
        container.initializer.extend(tensors)
        return
    for position, tensor in enumerate(tensors):
        node = onnx.NodeProto(op_type="Constant", output=[tensor.name])
        node.attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
        container.node.insert(position, node)
