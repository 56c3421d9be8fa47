"""Doing edits: the only module that knows onnx-graphsurgeon.

Graphsurgeon edits the nodes of one scope at a time. It is handed a stand-in that has the operators and tensor names of
the nodes that change, but no attributes, bodies or data, so it can neither drop what it does not know nor copy a
weight. Its export is not the result: the original model is, copied, with what the edits asked for taken over.
"""

from collections.abc import Callable, Iterable, Sequence

import onnx
import onnx_graphsurgeon as gs

from qdqtool.graph.edits.batch import EditError, NodeChange, ScopeBatch, new_batch, sort_edits
from qdqtool.graph.edits.consistency import check_batches
from qdqtool.graph.edits.edit import AddNode, Edit, NodeKey
from qdqtool.graph.edits.takeover import take_over
from qdqtool.graph.index.view import DEFAULT_DOMAINS, GraphView
from qdqtool.graph.io.copying import copy_model
from qdqtool.graph.model import Model
from qdqtool.graph.scope import MAIN, ScopePath, function_path, walk

__all__ = ["EditError", "apply_edits"]

IR_WITH_FREE_INITIALIZERS = 4
"""From this IR version on, an initializer need not be a graph input too."""


def apply_edits(model: Model, edits: Sequence[Edit]) -> Model:
    """The model with the edits done; ``model`` itself is left as it is.

    What no edit names stays as it was, byte for byte: nodes and their order, metadata, doc strings, types,
    annotations, functions, training information. What described a tensor that vanishes goes with it. Besides:

    - A new initializer raises the IR version to 4 where it is lower.
    - A new node of a domain that the model or function does not import yet adds the import, version 1.

    Args:
        model: The model.
        edits: What to do. Their order matters only among new nodes that nothing reads.

    Raises:
        EditError: The edits do not fit the model, or leave a name without a definition or with two.
        ModelError: Two nodes of a scope that is edited make the same tensor.
    """
    result = model.fork()
    view = GraphView(model)
    batches = sort_edits(view, edits)
    check_batches(view, batches)
    result.proto = copy_model(model.proto, batches[MAIN].old_initializers if MAIN in batches else ())
    containers = dict(walk(result.proto))
    moved = _owners_of_moved(batches.values())
    for path in moved:
        batches.setdefault(path, new_batch(view, path))
    for path, batch in sorted(batches.items(), key=lambda entry: -len(entry[0])):  # placing looks into edited bodies
        take_over(containers[path], batch, _edit_nodes(batch), moved.get(path, ()))
        _raise_ir_for(batch, result.proto)
        _import_domains(batch, result.proto)
    return result


def _owners_of_moved(batches: Iterable[ScopeBatch]) -> dict[ScopePath, set[NodeKey]]:
    """By scope, the nodes that have a body in which inputs change."""
    owners: dict[ScopePath, set[NodeKey]] = {}
    for batch in batches:
        owner = batch.scope.owner
        while owner is not None:
            owners.setdefault(owner.scope.path, set()).add(owner.key)
            owner = owner.scope.owner
    return owners


def _edit_nodes(batch: ScopeBatch) -> dict[NodeKey, onnx.NodeProto]:
    """The new and changed nodes of the scope after the edits, as graphsurgeon exports them, by their outputs."""
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
    for key, node in nodes.items():  # in file order, in which graphsurgeon finds a consumer of a tensor at once
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
        domain=node.domain or None,
    )


def _raise_ir_for(batch: ScopeBatch, proto: onnx.ModelProto) -> None:
    if batch.new_initializers and not batch.scope.is_function:
        proto.ir_version = max(proto.ir_version, IR_WITH_FREE_INITIALIZERS)


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
