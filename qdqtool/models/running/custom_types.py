"""The output types of custom operators, which shape inference does not know."""

from collections.abc import Iterator

import onnx

from qdqtool.errors import QdqError
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath, walk
from qdqtool.models.running.custom_operators import CustomOperators, active, functions_of, is_unknown
from qdqtool.models.running.ort_cpu import Session

_LARGE = 1 << 20
"""A constant with more bytes becomes an input: its values rarely determine a shape."""


def with_known_types(model: Model) -> Model:
    """Return a model that declares the output types of custom operators; the same model without such operators.

    Without these types, no tensor behind such a node has a known type. ONNX Runtime infers the outputs of each node
    alone, from the types of its inputs. Nodes in local functions are left out.
    """
    done = set[tuple[ScopePath, NodeKey]]()
    if active() == CustomOperators():
        return model
    while found := {place: infos for place, infos in _unknown_outputs(ModelIndex.of(model)) if place not in done}:
        done |= found.keys()
        model = model.fork(copy_model(model.proto))
        for path, container in walk(model.proto):
            for (scope, _), infos in found.items():
                if scope == path and isinstance(container, onnx.GraphProto):
                    container.value_info.extend(infos)
    return model


def _unknown_outputs(index: ModelIndex) -> Iterator[tuple[tuple[ScopePath, NodeKey], list[onnx.ValueInfoProto]]]:
    """Yield the place of each custom node whose outputs have no type yet, with the types of its outputs."""
    functions = functions_of(index.model.proto)
    for node in index.view.nodes():
        if is_unknown(node.proto, functions) and all(
            index.types.type_proto(value) is None for value in node.present_outputs
        ):
            infos = _inferred(node, index)
            if infos:
                yield (node.scope.path, node.key), infos


def _inferred(node: NodeView, index: ModelIndex) -> list[onnx.ValueInfoProto]:
    graph = onnx.GraphProto(name="node", node=[node.proto])
    for value in {each.name: each for each in node.present_inputs}.values():
        elem_type, constant = index.elem_type(value), index.constant(value)
        if elem_type is None:
            return []
        if constant is not None and constant.nbytes <= _LARGE:
            graph.initializer.append(onnx.numpy_helper.from_array(constant, value.name))
        else:
            shape = index.types.shape(value)
            graph.input.append(onnx.helper.make_tensor_value_info(value.name, elem_type, shape))
    graph.output.extend(onnx.ValueInfoProto(name=each.name) for each in node.present_outputs)
    proto = onnx.ModelProto(ir_version=index.model.proto.ir_version, graph=graph)
    proto.opset_import.extend(index.model.proto.opset_import)
    try:
        with Session(Model(proto)) as session:
            return session.typed_outputs()
    # The kernel may need what this node alone lacks. Then the types stay unknown.
    except QdqError:
        return []
