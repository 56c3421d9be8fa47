"""The faults of onnx's version converter: silent changes of meaning, crashes, and clashes of invented names.

Measured with onnx 1.23.2 by about 100 one-node models (``tests/models/transforms/test_opset.py``), which ran in ONNX
Runtime 1.31 before and after conversion. Except for the faults below, all results were bit-equal. The converter does
not check the types of attributes; a string in place of a list ends the process.

The converter invents tensor names such as ``_v_4`` and ``<output>_intermediate`` without checking whether the model
already has them. Therefore it is given a stand-in: in every scope, every tensor has a unique name that the converter
cannot invent.
"""

import functools
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.inference import is_endless
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.signature import signature_of
from qdqtool.models.graph.index.view import GraphView, NodeView, Scope
from qdqtool.models.graph.io.copying import copy_without_data
from qdqtool.models.graph.io.data_file import set_inline
from qdqtool.models.graph.io.tensors import is_external, is_pending, make_tensor, nbytes, read_bytes
from qdqtool.models.graph.scope import body_path, display, node_bodies

KEPT_BYTES = 1024
"""Constants of at most this many bytes keep their data, because the converter reads shapes, axes and scales."""

_Names = ChainMap[str, str]
_GRAPHS = {AttributeProto.GRAPH, AttributeProto.GRAPHS}


@dataclass(slots=True, eq=False)
class ConverterInput:
    """A stand-in graph with invented tensor names.

    Attributes:
        graph: The graph for the converter.
        names: Original name by invented name.
        nodes: Original node by the invented outputs of its stand-in.
    """

    graph: onnx.GraphProto = field(default_factory=onnx.GraphProto)
    names: dict[str, str] = field(default_factory=dict)
    nodes: dict[NodeKey, NodeView] = field(default_factory=dict)


def encode(view: GraphView, scope: Scope) -> ConverterInput:
    """Make the stand-in of a graph and of the subgraphs of its default-domain nodes, which the converter converts too.

    Args:
        view: The index of the model.
        scope: The main graph, a local function, or a subgraph of a node of another domain. Tensors of enclosing scopes
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
            # Files often declare types for tensors that no longer exist.
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
        copy_without_data(source, target)
        if small:
            set_inline(target, read_bytes(self._view.model, source))


def _check_single_definitions(scope: Scope) -> None:
    made = Counter(name for node in scope.nodes for name in node.key if name)
    given = [name for name, value in scope.values.items() if value.is_input or value.initializer is not None]
    twice = next((name for name, count in (made + Counter(given)).items() if count > 1), None)
    if twice is not None:
        raise ModelError(f"{_where(scope)} defines tensor '{twice}' twice")


def _where(scope: Scope) -> str:
    return display(scope.path) or "the main graph"


# Hardmax is copied although its default axis and the flattening change at opset 13. Softmax, which changed in the same
# way, is rewritten correctly (Flatten, Softmax, Reshape).
_CHANGED_MEANING = {"Scan": 9, "Hardmax": 13, "GroupNormalization": 21}
"""Operators that the converter copies or changes wrongly, with the opset that redefined them."""

_MENDED = {"Upsample": 11, "Resize": 11}
"""Operators whose conversion :func:`repair_conversion` corrects, with the opset that redefined them."""


def check_convertible(node: NodeView, version: int) -> None:
    """Refuse a node on which the converter would crash, or whose meaning it would silently change.

    Raises:
        ModelError: The node is one of these, or its operator does not exist in its opset.
    """
    if node.domain:
        return
    _check_attribute_types(node)
    if is_endless(node.proto):
        raise _refusal(node, version, "a term of its equation has more than one ellipsis")
    if _passes(node, version, _CHANGED_MEANING) and not _means_the_same(node):
        raise _refusal(node, version, "the operator has another meaning there")
    if _passes(node, version, _MENDED) and node.is_parametric:
        raise _refusal(node, version, "it gets an attribute from the caller of the function")


def _passes(node: NodeView, version: int, limits: Mapping[str, int]) -> bool:
    return not node.domain and node.scope.opset < limits.get(node.op_type, 0) <= version


def _refusal(node: NodeView, version: int, reason: str) -> ModelError:
    step = f"from opset {node.scope.opset} to {version}"
    return ModelError(
        f"node '{node.label}' ({node.op_type}) cannot be converted {step}: {reason}",
        hint=f"export the model again with opset {version} or later",
    )


def _check_attribute_types(node: NodeView) -> None:
    signature = signature_of(node.op_type, node.scope.opset)
    if signature is None:
        raise ModelError(
            f"node '{node.label}' ({node.op_type}) cannot be converted: opset {node.scope.opset} has no such operator"
        )
    for attribute in node.proto.attribute:
        # An unknown subgraph would be converted without a schema. Other unknown attributes are copied.
        unknown = None if attribute.type in _GRAPHS else attribute.type
        if attribute.type != signature.types.get(attribute.name, unknown):
            raise ModelError(f"attribute '{attribute.name}' of node '{node.label}' ({node.op_type}) has the wrong type")


def _means_the_same(node: NodeView) -> bool:
    return node.op_type == "Hardmax" and not node.is_parametric and node.attribute("axis", 1) == -1


def repair_conversion(index: ModelIndex, node: NodeView, converted: onnx.NodeProto, version: int) -> None:
    """Correct the converter's result for ``node``.

    Before opset 11, Upsample and Resize only divide coordinates (``asymmetric``) and round the result down (up if they
    shrink the data). The converter omits both attributes, and the defaults of opset 11 are different.
    """
    if not _passes(node, version, _MENDED):
        return
    converted.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
    if node.attribute("mode", b"nearest") == b"nearest":
        converted.attribute.append(onnx.helper.make_attribute("nearest_mode", _nearest_mode(index, node, version)))


def _nearest_mode(index: ModelIndex, node: NodeView, version: int) -> str:
    if node.op_type == "Upsample":
        return "floor"
    scales = node.input(1)
    found = index.constants.array(scales) if scales is not None else None
    if found is not None and np.all(np.greater_equal(found, 1)):
        return "floor"
    if found is not None and np.all(np.less_equal(found, 1)):
        return "ceil"
    raise _refusal(
        node,
        version,
        "its scales are not constant, or they enlarge one axis and shrink another, which rounds differently",
    )


def retype_constants(
    index: ModelIndex, node: NodeView, converted: onnx.NodeProto, made: Iterable[onnx.NodeProto], version: int
) -> None:
    """Convert constants to the type of the first input, if ONNX requires it: the converter made them from attributes.

    The converter stores the bounds of a Clip and the value of a Pad as float32. With a float16 or double input, no
    runtime loads the result. If the type of the input is unknown, the constants stay float32.

    Args:
        index: The index of the model.
        node: The node before the conversion.
        converted: The node after the conversion.
        made: The nodes that the converter added before ``converted``; their constants are changed.
        version: The opset that the node is converted to.
    """
    constants = [each for each in made if each.op_type == "Constant"]
    first = node.input(0)
    if not constants or first is None:
        return
    same_type = {
        converted.input[position]
        for position in _typed_like_first(converted.op_type, version)
        if position < len(converted.input)
    }
    for constant in constants:
        if constant.output[0] in same_type:
            _retype(constant.attribute[0].t, index.types.elem_type(first) or onnx.TensorProto.FLOAT)


@functools.cache
def _typed_like_first(op_type: str, version: int) -> tuple[int, ...]:
    """Return the positions of the inputs that must have the type of the first input."""
    formals = onnx.defs.get_schema(op_type, version).inputs
    return tuple(position for position in range(1, len(formals)) if formals[position].type_str == formals[0].type_str)


def _retype(tensor: onnx.TensorProto, elem_type: int) -> None:
    # A bound of -3.4e38, which means "no bound", overflows to infinity in float16.
    with np.errstate(over="ignore"):
        tensor.CopyFrom(make_tensor(tensor.name, onnx.numpy_helper.to_array(tensor), elem_type))
