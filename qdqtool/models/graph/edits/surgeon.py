"""Apply edits to a model; the only module that uses onnx-graphsurgeon.

Graphsurgeon edits the nodes of one scope at a time. It gets a stand-in with the operators and tensor names of the
nodes that change, without attributes, subgraphs and data. Therefore it cannot drop unknown fields, and
copies no weights. The result is a copy of the original model with the requested changes from graphsurgeon's export.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import onnx
import onnx_graphsurgeon as gs

from qdqtool.models.graph.edits.batch import EditError, NodeChange, ScopeBatch, new_batch, sort_edits, where
from qdqtool.models.graph.edits.copy_changes import copy_changes
from qdqtool.models.graph.edits.edit import AddNode, Edit, NodeKey
from qdqtool.models.graph.index.view import DEFAULT_DOMAINS, GraphView, Scope, Use
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import MAIN, ScopePath, function_path, walk


def check_batches(view: GraphView, batches: Mapping[ScopePath, ScopeBatch]) -> None:
    """Check that the model will be consistent after the edits."""
    checker = _Checker(batches)
    checker.check_new_names(view)
    for batch in batches.values():
        checker.check_vanished(batch)
        checker.check_reads(batch)


class _Checker:
    def __init__(self, batches: Mapping[ScopePath, ScopeBatch]) -> None:
        self._batches = batches
        self._new = {path: Counter(batch.new_names()) for path, batch in batches.items()}
        self._old = {path: batch.old_names() for path, batch in batches.items()}

    def check_new_names(self, view: GraphView) -> None:
        new = {name for names in self._new.values() for name in names}
        definers: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in view.scopes:
            kept = Counter((scope.values.keys() & new) - self._old.get(scope.path, set()))
            for name, times in (kept + self._new.get(scope.path, Counter())).items():
                definers[name] += [scope] * times
        for name, scopes in definers.items():
            _check_sole_definer(name, scopes)

    def check_vanished(self, batch: ScopeBatch) -> None:
        path = batch.scope.path
        for name in sorted(self._old[path] - self._new[path].keys()):
            value = batch.scope.values[name]
            if value.is_output:
                raise EditError(f"tensor '{name}' would vanish, but it is an output of {where(path)}")
            reader = next((use for use in value.uses if not self._is_moved(use)), None)
            if reader is not None:
                raise EditError(
                    f"tensor '{name}' of {where(path)} would vanish, "
                    f"but input {reader.index} of node '{reader.node.label}' reads it"
                )

    def check_reads(self, batch: ScopeBatch) -> None:
        for name in dict.fromkeys(_names_read(batch)):
            if not any(self._defines(scope, name) for scope in batch.scope.outwards()):
                raise EditError(f"an edit in {where(batch.scope.path)} reads tensor '{name}', which is defined nowhere")

    def _defines(self, scope: Scope, name: str) -> bool:
        if name in self._new.get(scope.path, ()):
            return True
        return name in scope.values and name not in self._old.get(scope.path, ())

    def _is_moved(self, use: Use) -> bool:
        scope = use.node.scope
        batch = self._batches.get(scope.path)
        if batch is not None:
            change = batch.changes.get(use.node.key)
            if use.node.key in batch.removed or (change is not None and use.index in change.inputs):
                return True
        return any(self._loses_owner(around) for around in scope.outwards())

    def _loses_owner(self, scope: Scope) -> bool:
        owner = scope.owner
        batch = self._batches.get(owner.scope.path) if owner is not None else None
        return owner is not None and batch is not None and owner.key in batch.removed


def _check_sole_definer(name: str, scopes: list[Scope]) -> None:
    seen: set[ScopePath] = set()
    for scope in scopes:
        if scope.path in seen:
            raise EditError(f"tensor '{name}' would be defined twice in {where(scope.path)}")
        seen.add(scope.path)
    for scope in scopes:
        hidden = next((outer for outer in scope.outwards() if outer is not scope and outer.path in seen), None)
        if hidden is not None:
            raise EditError(f"tensor '{name}' of {where(scope.path)} would hide the tensor of {where(hidden.path)}")


def _names_read(batch: ScopeBatch) -> Iterator[str]:
    for node in batch.added:
        yield from filter(None, node.inputs)
    for key, change in batch.changes.items():
        if key not in batch.removed:
            yield from filter(None, change.inputs.values())


__all__ = ["EditError", "apply_edits"]

IR_WITH_FREE_INITIALIZERS = 4
"""The first IR version in which an initializer need not also be a graph input."""


def apply_edits(model: Model, edits: Sequence[Edit]) -> Model:
    """Return a copy of the model with the edits applied.

    Everything that no edit names stays the same, byte for byte: nodes and their order, metadata, doc strings, types,
    annotations, functions, training information. Types and annotations of removed tensors are removed too. In addition:

    - A new initializer raises a lower IR version to 4.
    - If the model or function does not import the domain of a new node, it imports version 1 of the domain.

    Args:
        model: The model.
        edits: The edits. Their order matters only for new nodes whose outputs nothing reads.
    """
    view = GraphView(model)
    batches = sort_edits(view, edits)
    check_batches(view, batches)
    result = model.fork(copy_model(model.proto, batches[MAIN].old_initializers if MAIN in batches else ()))
    containers = dict(walk(result.proto))
    moved = _owners_of_moved(batches.values())
    for path in moved:
        batches.setdefault(path, new_batch(view, path))
    # Inner scopes first: the position of a node depends on the edited subgraphs of its neighbors.
    for path, batch in sorted(batches.items(), key=lambda entry: -len(entry[0])):
        copy_changes(containers[path], batch, _edit_nodes(batch), moved.get(path, ()))
        if batch.new_initializers and not batch.scope.is_function:
            result.proto.ir_version = max(result.proto.ir_version, IR_WITH_FREE_INITIALIZERS)
        _import_domains(batch, result.proto)
    return result


def _owners_of_moved(batches: Iterable[ScopeBatch]) -> dict[ScopePath, set[NodeKey]]:
    """Return, by scope, the nodes with a subgraph in which inputs change."""
    owners: dict[ScopePath, set[NodeKey]] = {}
    for batch in batches:
        owner = batch.scope.owner
        while owner is not None:
            owners.setdefault(owner.scope.path, set()).add(owner.key)
            owner = owner.scope.owner
    return owners


def _edit_nodes(batch: ScopeBatch) -> dict[NodeKey, onnx.NodeProto]:
    """Return the new and changed nodes of the scope, as graphsurgeon exports them, by output names."""
    if not (batch.added or batch.changes or batch.removed):
        return {}
    graph = gs.import_onnx(_stand_in(batch))
    tensors = graph.tensors()

    def tensor(name: str) -> gs.Tensor:
        if name not in tensors:
            tensors[name] = gs.Variable(name)
        return tensors[name] if name else gs.Variable.empty()

    nodes = {tuple(output.name for output in node.outputs): node for node in graph.nodes}
    kept: list[gs.Node] = []
    # In file order: graphsurgeon removes a node from the consumers of a tensor with list.remove, which searches from
    # the front. In another order, a tensor with thousands of consumers takes quadratic time.
    for key, node in nodes.items():
        if key in batch.removed:
            node.inputs.clear()
            node.outputs.clear()
        else:
            _change_node(node, batch.changes[key], tensor)
            kept.append(node)
    graph.nodes = [*kept, *(_new_node(node, tensor) for node in batch.added)]
    exported = gs.export_onnx(graph, do_type_check=False)
    return {tuple(node.output): node for node in exported.graph.node}


def _stand_in(batch: ScopeBatch) -> onnx.ModelProto:
    proto = onnx.ModelProto(ir_version=onnx.IR_VERSION)
    proto.opset_import.add(domain="", version=batch.scope.opset)
    for key, view in batch.nodes.items():
        node = view.proto
        if key in batch.changes or key in batch.removed:
            proto.graph.node.add(op_type=node.op_type, domain=node.domain, input=node.input, output=node.output)
    return proto


def _change_node(node: gs.Node, change: NodeChange, tensor: Callable[[str], gs.Tensor]) -> None:
    for index, name in change.inputs.items():
        while len(node.inputs) <= index:
            node.inputs.append(gs.Variable.empty())
        node.inputs[index] = tensor(name)
    for index, name in change.outputs.items():
        node.outputs[index] = tensor(name)
    node.attrs.update({name: value for name, value in change.attributes.items() if value is not None})
    node.name = change.name or ""
    node.domain = node.domain if change.domain is None else change.domain
    node.op = node.op if change.op_type is None else change.op_type


def _new_node(node: AddNode, tensor: Callable[[str], gs.Tensor]) -> gs.Node:
    return gs.Node(
        op=node.op_type,
        name=node.name,
        attrs=dict(node.attributes),
        inputs=[tensor(name) for name in node.inputs],
        outputs=[tensor(name) for name in node.outputs],
        # graphsurgeon 0.6.1 writes a domain field for "", but not for None.
        domain=node.domain or None,
    )


def _import_domains(batch: ScopeBatch, proto: onnx.ModelProto) -> None:
    domains = [node.domain for node in batch.added]
    domains += [change.domain for change in batch.changes.values() if change.domain is not None]
    root = batch.scope.path[:1]
    functions = {function_path(function): function for function in proto.functions}
    importer = functions.get(root, proto) if root else proto
    known = {entry.domain for entry in importer.opset_import}
    for domain in dict.fromkeys(domains):
        if domain not in DEFAULT_DOMAINS | known:
            importer.opset_import.add(domain=domain, version=1)
