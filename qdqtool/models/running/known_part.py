"""The part of a model in front of the operators that ONNX Runtime does not know, and the whole made of a changed part.

Outputs of the part are the outputs of the model that it computes, and the tensors that the rest reads. So a change that
keeps names and types of inputs and outputs fits the rest again.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import onnx

from qdqtool.errors import UsageError
from qdqtool.models.graph.edits.copy_changes import names_read
from qdqtool.models.graph.edits.naming import Namer, rename_in_graph
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import NodeReason
from qdqtool.models.graph.scope import node_bodies
from qdqtool.models.running.custom_operators import active, functions_of, is_unknown, operator_key
from qdqtool.models.transforms.opset import upgrade_opset


@dataclass(frozen=True, slots=True)
class KnownPart:
    """The part of a model that ONNX Runtime can run.

    Attributes:
        source: The whole model.
        model: The part.
        behind: The nodes that are not in the part, each with the reason.
        lost: Names of the outputs that the part does not compute.
    """

    source: Model
    model: Model
    behind: tuple[NodeReason, ...]
    lost: tuple[str, ...]

    def joined(self, part: Model) -> Model:
        """Return the whole model with a changed part: float nodes behind it are those of the source."""
        source = upgrade_opset(self.source, part.default_opset()).model
        graph, crossing = source.proto.graph, {each.name for each in self.model.proto.graph.output}
        rest = _with_constants(graph, [node for node, _ in _rest(source.proto)], crossing)
        made = {name for node in rest for name in node.output if name}
        read = {name for node in rest for name in names_read(node)}
        tail = onnx.GraphProto(node=rest)
        tail.initializer.extend(each for each in graph.initializer if each.name in read)
        tail.value_info.extend(each for each in graph.value_info if each.name in made)
        # A changed part may keep the name of a weight and change its values, so the rest has weights of its own.
        own = made | {each.name for each in tail.initializer}
        namer = Namer(GraphView(part))
        outputs = {each.name for each in graph.output}
        rename_in_graph(tail, {name: namer.tensor(name) for name in sorted(own - outputs)})
        whole = part.fork(copy_model(part.proto))
        whole.payloads.update(source.payloads | part.payloads)
        target = whole.proto.graph
        target.node.extend(tail.node)
        target.initializer.extend(tail.initializer)
        target.value_info.extend(tail.value_info)
        if whole.proto.ir_version < 4:
            infos = (
                onnx.helper.make_tensor_value_info(each.name, each.data_type, each.dims) for each in tail.initializer
            )
            target.input.extend(infos)
        del target.output[:]
        target.output.extend(graph.output)
        kept = functions_of(whole.proto)
        whole.proto.functions.extend(
            each for each in source.proto.functions if operator_key(each.domain, each.name) not in kept
        )
        imported = {each.domain for each in whole.proto.opset_import}
        whole.proto.opset_import.extend(each for each in source.proto.opset_import if each.domain not in imported)
        return whole


def known_part(source: Model) -> KnownPart | None:
    """Return the part in front of unknown operators; None if the model has no such operator.

    Raises:
        UsageError: No node is in front of them, or a library of operators is named.
    """
    if active().libraries:
        raise UsageError("--partial cannot be used with --ort-custom-ops: the library runs its operators")
    proto, index = source.proto, ModelIndex.of(source)
    causes = _rest(proto)
    if not causes:
        return None
    made = {name for node, _ in causes for name in node.output if name}
    read = {name for node, _ in causes for name in names_read(node)}
    front = [node for node in proto.graph.node if made.isdisjoint(node.output)]
    if not front:
        raise UsageError("no node is in front of the operators that ONNX Runtime does not know")
    used = {name for node in front for name in names_read(node)}
    part = source.fork(copy_model(proto, {each.name for each in proto.graph.initializer} - used))
    graph = part.proto.graph
    crossing = [name for node in front if node.op_type != "Constant" for name in node.output if name in read]
    known = [each for each in proto.graph.output if each.name not in made]
    for name in dict.fromkeys(crossing):
        kind = index.types.type_proto(index.view.main.values[name])
        if name not in {each.name for each in known}:
            known.append(onnx.ValueInfoProto(name=name, type=kind))
    wanted = used | {each.name for each in known}
    front = [node for node in front if node.op_type != "Constant" or not wanted.isdisjoint(node.output)]
    kept = {"node": front, "output": known}
    # Before IR version 4, initializers are inputs too.
    dropped = {each.name for each in proto.graph.initializer} - used
    kept["input"] = [each for each in proto.graph.input if each.name not in dropped]
    kept["initializer"] = [each for each in proto.graph.initializer if each.name in used]
    kept["value_info"] = [each for each in proto.graph.value_info if each.name not in made]
    for field, entries in kept.items():
        graph.ClearField(field)
        getattr(graph, field).extend(entries)
    unknown = _unknown_functions(proto)
    functions = [each for each in proto.functions if operator_key(each.domain, each.name) not in unknown]
    part.proto.ClearField("functions")
    part.proto.functions.extend(functions)
    views = {view.key: view for view in index.view.main.nodes}
    behind = tuple(views[tuple(node.output)].because(_reason(cause, node, unknown)) for node, cause in causes)
    return KnownPart(source, part, behind, tuple(each.name for each in proto.graph.output if each.name in made))


def _reason(cause: onnx.NodeProto, node: onnx.NodeProto, functions: Collection[tuple[str, str]]) -> str:
    if cause in _with_bodies(node):
        name = f"{cause.domain or 'ai.onnx'}::{cause.op_type}"
        if operator_key(cause.domain, cause.op_type) in functions:
            return f"local function {name} needs an operator that ONNX Runtime does not know"
        return f"ONNX Runtime does not know operator {name}"
    return f"it needs the result of {cause.op_type} '{cause.name or cause.output[0]}', which ONNX Runtime cannot run"


def _rest(proto: onnx.ModelProto) -> list[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Return the nodes of the main graph that are unknown or need the result of such a node, each with this node."""
    known = (functions_of(proto) - _unknown_functions(proto)) | active().stand_ins.keys()
    causes: dict[str, onnx.NodeProto] = {}
    rest = []
    for node in proto.graph.node:
        cause = next((each for each in _with_bodies(node) if is_unknown(each, known)), None)
        cause = cause or next((causes[name] for name in names_read(node) if name in causes), None)
        if cause is not None:
            rest.append((node, cause))
            causes |= dict.fromkeys(filter(None, node.output), cause)
    return rest


def _with_constants(graph: onnx.GraphProto, rest: list[onnx.NodeProto], crossing: set[str]) -> list[onnx.NodeProto]:
    """Return the rest with the other nodes that it needs: constants, some of which an upgrade of the opset adds."""
    found = list(rest)
    missing = {name for node in rest for name in names_read(node)} - {name for node in rest for name in node.output}
    for node in reversed(graph.node):
        if not (missing - crossing).isdisjoint(filter(None, node.output)):
            found.insert(0, node)
            missing |= set(names_read(node))
    return found


def _unknown_functions(proto: onnx.ModelProto) -> set[tuple[str, str]]:
    """Return the local functions that need an unknown operator, directly or by a call."""
    known = functions_of(proto) | active().stand_ins.keys()
    while True:
        failing = {
            operator_key(each.domain, each.name)
            for each in proto.functions
            if any(is_unknown(inner, known) for node in each.node for inner in _with_bodies(node))
        }
        if not failing & known:
            return failing
        known = known - failing


def _with_bodies(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """Yield a node and the nodes in its subgraphs."""
    yield node
    for _, body in node_bodies(node):
        for inner in body.node:
            yield from _with_bodies(inner)
