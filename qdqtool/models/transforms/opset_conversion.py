"""Convert one graph with onnx's version converter, and express the changes as edits of the original graph."""

import re
from collections.abc import Iterable, Iterator

import onnx
from onnx import AttributeProto, shape_inference, version_converter

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits.edit import (
    AddInitializer,
    AddNode,
    Edit,
    RemoveNode,
    SetAttribute,
    SetInput,
    SetOperator,
)
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import DEFAULT_DOMAINS, NodeView, Scope
from qdqtool.models.graph.scope import ScopePath, body_path, display, node_bodies
from qdqtool.models.transforms.converter_faults import (
    ConverterInput,
    check_convertible,
    encode,
    repair_conversion,
    retype_constants,
)

Imports = Iterable[onnx.OperatorSetIdProto]

_FAILURES = (
    RuntimeError,
    ValueError,
    TypeError,
    IndexError,
    version_converter.ConvertError,
    shape_inference.InferenceError,
)


def convert_scope(index: ModelIndex, scope: Scope, imports: Imports, namer: Namer, version: int) -> list[Edit]:
    """Return the edits that convert a graph and its subgraphs to a later version of the default domain.

    Args:
        index: The index of the model.
        scope: The main graph, a local function, or a subgraph of a node of another domain.
        imports: The opset imports of that scope.
        namer: Chooses names for new nodes and tensors.
        version: The requested version.
    """
    prepared = encode(index.view, scope)
    for node in prepared.nodes.values():
        check_convertible(node, version)
    converted = _convert(prepared, scope, imports, version)
    difference = _OpsetDifference(index, prepared, namer, version)
    difference.compare(scope.path, prepared.graph, converted)
    return difference.edits


def _convert(prepared: ConverterInput, scope: Scope, imports: Imports, version: int) -> onnx.GraphProto:
    others = [entry for entry in imports if entry.domain not in DEFAULT_DOMAINS]
    # The converter needs an import of every domain. But ONNX Runtime runs models that do not import com.microsoft, such
    # as those of Neural Compressor.
    absent = _domains(prepared.graph) - DEFAULT_DOMAINS - {entry.domain for entry in others}
    others += [onnx.helper.make_opsetid(domain, 1) for domain in sorted(absent)]
    try:
        return _run_converter(prepared.graph, scope.opset, others, version)
    except _FAILURES as error:
        culprit = _culprit(prepared, scope.opset, others, version)
        what = f"node '{culprit.label}' ({culprit.op_type})" if culprit else "an operator"
        where = f" in {display(scope.path)}" if scope.path else ""
        raise ModelError(
            f"{what}{where} cannot be converted from opset {scope.opset} to {version}: {_reason(error)}",
            hint=f"export the model again with opset {version} or later",
        ) from None


def _domains(graph: onnx.GraphProto) -> set[str]:
    """Return the domains of the operators of a graph and its subgraphs."""
    found = {node.domain for node in graph.node}
    return found.union(*(_domains(body) for node in graph.node for _, body in node_bodies(node)))


def _run_converter(graph: onnx.GraphProto, before: int, others: Imports, version: int) -> onnx.GraphProto:
    model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=graph)
    model.opset_import.add(domain="", version=before)
    model.opset_import.extend(others)
    return version_converter.convert_version(model, version).graph


def _culprit(prepared: ConverterInput, before: int, others: Imports, version: int) -> NodeView | None:
    """Return the first node that the converter refuses on its own, or None if there is no such node."""
    for node in prepared.graph.node:
        alone = onnx.GraphProto(name="one", node=[node])
        alone.input.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(node.input) if name)
        alone.output.extend(onnx.ValueInfoProto(name=name) for name in node.output if name)
        try:
            _run_converter(alone, before, others, version)
        except _FAILURES:
            return prepared.nodes[tuple(node.output)]
    return None


def _reason(error: Exception) -> str:
    """Return the first line of the converter's error message, without the position in its source."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return re.sub(r"^\S+\.(h|cc):\d+: ", "", first).rsplit("failed: ", 1)[-1]


class _OpsetDifference:
    """Turns the converter's changes of a stand-in graph into edits of the original graph."""

    def __init__(self, index: ModelIndex, prepared: ConverterInput, namer: Namer, version: int) -> None:
        self.edits: list[Edit] = []
        self._index = index
        self._prepared = prepared
        self._namer = namer
        self._version = version

    def compare(self, path: ScopePath, before: onnx.GraphProto, after: onnx.GraphProto) -> None:
        """Collect the edits of one scope and of the subgraphs in it."""
        old = {tuple(node.output): node for node in before.node if any(node.output)}
        names = _Names(self, path, after)
        waiting: list[onnx.NodeProto] = []
        for node in after.node:
            key = tuple(node.output)
            if not any(key):
                continue
            if key not in old:
                # The converter places new nodes before the node that uses them; they are named after that node.
                waiting.append(node)
                continue
            real = self._prepared.nodes[key]
            names.anchor = next(filter(None, real.key))
            retype_constants(self._index, real, node, waiting, self._version)
            self._add(waiting, names)
            self._change(real, old[key], node, names)
            self._compare_bodies(real, old[key], node)
        self._add(waiting, names)
        kept = {tuple(node.output) for node in after.node}
        self.edits.extend(RemoveNode(path, self._prepared.nodes[key].key) for key in old if key not in kept)

    def _add(self, nodes: list[onnx.NodeProto], names: "_Names") -> None:
        for node in nodes:
            inputs = tuple(names.real(name) for name in node.input)
            outputs = tuple(names.made(name, node.op_type) for name in node.output)
            attributes = {item.name: onnx.helper.get_attribute_value(item) for item in node.attribute}
            name = self._namer.node(f"{names.anchor}_{node.op_type}")
            self.edits.append(AddNode(names.path, node.op_type, inputs, outputs, name, attributes=attributes))
        nodes.clear()

    def _change(self, real: NodeView, old: onnx.NodeProto, new: onnx.NodeProto, names: "_Names") -> None:
        repair_conversion(self._index, real, new, self._version)
        path, key = names.path, real.key
        if new.op_type != old.op_type:
            self.edits.append(SetOperator(path, key, new.op_type))
        for index in range(max(len(old.input), len(new.input))):
            name = new.input[index] if index < len(new.input) else ""
            if name != (old.input[index] if index < len(old.input) else ""):
                self.edits.append(SetInput(path, key, index, names.real(name)))
        for name, value in _changed_attributes(real, old, new):
            self.edits.append(SetAttribute(path, key, name, value))

    def _compare_bodies(self, real: NodeView, old: onnx.NodeProto, new: onnx.NodeProto) -> None:
        after = dict(node_bodies(new))
        for attribute, body in node_bodies(old):
            self.compare(body_path(real.scope.path, real.proto, attribute), body, after[attribute])

    def make_up(self, base: str) -> str:
        """Choose a name for a tensor that the converter added."""
        return self._namer.tensor(base)

    def real_name(self, name: str) -> str | None:
        """Return the original name of a tensor of the stand-in, or None for a tensor that the converter added."""
        return self._prepared.names.get(name)


class _Names:
    """The names of tensors in the original scope, including names for new tensors."""

    def __init__(self, difference: _OpsetDifference, path: ScopePath, after: onnx.GraphProto) -> None:
        self.path = path
        self.anchor = "upgraded"
        self._difference = difference
        self._made: dict[str, str] = {}
        self._constants = {tensor.name: tensor for tensor in after.initializer}

    def made(self, name: str, op_type: str) -> str:
        """Return the name in the original graph for an output of a new node."""
        known = self._difference.real_name(name) if name else ""
        if known is None:
            known = self._made[name] = self._difference.make_up(f"{self.anchor}_{op_type}_Output")
        return known

    def real(self, name: str) -> str:
        """Return the original name of a tensor that a node reads. A constant of the converter is added to the model."""
        known = self._difference.real_name(name) if name else ""
        if known is not None:
            return known
        if name not in self._made:
            tensor = onnx.TensorProto()
            tensor.CopyFrom(self._constants[name])
            tensor.name = self._made[name] = self._difference.make_up(f"{self.anchor}_constant")
            self._difference.edits.append(AddInitializer(self.path, tensor))
        return self._made[name]


def _changed_attributes(real: NodeView, old: onnx.NodeProto, new: onnx.NodeProto) -> Iterator[tuple[str, object]]:
    """Yield name and value of each changed attribute; the value is None for a removed attribute."""
    before, after = _plain_attributes(old), _plain_attributes(new)
    for name, attribute in before.items():
        if attribute.ref_attr_name and (name not in after or new.op_type != old.op_type):
            raise ModelError(
                f"node '{real.label}' ({real.op_type}) in {display(real.scope.path)} cannot be converted from opset "
                f"{real.scope.opset}: its attribute '{name}' is a parameter of the function",
                hint="export the model again with a later opset",
            )
        if name not in after:
            yield name, None
    for name, attribute in after.items():
        known = before.get(name)
        if known is None or (not known.ref_attr_name and _value(known) != _value(attribute)):
            yield name, onnx.helper.get_attribute_value(attribute)


def _plain_attributes(node: onnx.NodeProto) -> dict[str, AttributeProto]:
    graphs = {AttributeProto.GRAPH, AttributeProto.GRAPHS}
    return {attribute.name: attribute for attribute in node.attribute if attribute.type not in graphs}


def _value(attribute: AttributeProto) -> bytes:
    """Return bytes to compare. They are empty for tensors, because the converter moves tensor data to another field."""
    if attribute.type in {AttributeProto.TENSOR, AttributeProto.TENSORS}:
        return b""
    plain = AttributeProto()
    plain.CopyFrom(attribute)
    plain.ClearField("doc_string")
    return plain.SerializeToString(deterministic=True)
