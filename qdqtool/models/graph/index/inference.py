"""Run ONNX's shape inference with limited memory, and without nodes for which it never ends.

Data propagation tracks the numbers that shapes are computed from; without it, tensors after a Shape node have no
shape. It expands every vector that shape arithmetic reads, with 250 bytes for each element: a graph input of 2^40
elements before a Cast exhausts the memory. Therefore data propagation runs only if the model computes shapes, and if
no vector is longer than a shape can be.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from qdqtool.models.graph.index.signature import with_identities
from qdqtool.models.graph.index.tensorrt_operators import with_stand_ins
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.scope import ScopePath, all_nodes, walk
from qdqtool.models.plugins import plugin_operators

LONGEST = 1 << 14
"""If a vector has more elements than this, data propagation does not run."""

# These names are looked up in the protobuf, because the index, whose nodes ops/ needs, does not exist yet.
CARRIERS = frozenset({"Cast", "Concat", "Gather", "Range", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""Operators of shape arithmetic. A model without them computes no shapes, or only from constants."""


_ELLIPSIS = "..."

_PREFIX = re.compile(r"\(op_type:\w+(?:, node name: #(\d+))?[^)]*\): (?:\[\w+\] )?(?:Inference error\(s\): )?")
_OWN_NAME = re.compile(r" in node \w+ \(#\d+\)\.$")
_FOLLOWS = "expected to have type but instead is null"
"""The end of a message about an input without a type, which is a consequence of a fault in its producer."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """The result of shape inference.

    Attributes:
        proto: A copy with all types and shapes that can be inferred; the same model if inference fails.
        is_sound: Whether every node fits its operator; a MatMul of matrices that do not fit does not.
    """

    proto: onnx.ModelProto
    is_sound: bool


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A message of shape inference about a node.

    Attributes:
        scope: Path of the scope of the node.
        position: Position of the node in the scope.
        text: The message of onnx.
    """

    scope: ScopePath
    position: int
    text: str


def infer_types(proto: onnx.ModelProto) -> Inferred:
    """Return the model with all types and shapes that can be inferred."""
    proto = _with_known_operators(_without_endless(proto))
    sound = _infer(proto, strict=True)
    is_sound = sound is not None
    plain = sound or _infer(proto)
    if plain is None:
        return Inferred(proto, is_sound)
    if not _computes_shapes(plain) or _has_long_vector(plain):
        return Inferred(plain, is_sound)
    return Inferred(_infer(proto, follow_numbers=True) or plain, is_sound)


def contradictions(proto: onnx.ModelProto, *, believe_shapes: bool = True) -> list[Contradiction]:
    """Return the messages of shape inference about nodes that contradict their operators, one for each node.

    Args:
        proto: A model that is not sound according to :func:`infer_types`; it is changed.
        believe_shapes: Whether inference uses the declared shapes of node outputs. ONNX Runtime uses the shapes that it
            infers.
    """
    places: list[tuple[ScopePath, int]] = []
    for path, container in walk(proto):
        for position, node in enumerate(container.node):
            node.name = f"#{len(places)}"
            places.append((path, position))
        if isinstance(container, onnx.GraphProto):
            # onnx 1.23.2 takes the rank of a sparse initializer as 0.
            container.ClearField("sparse_initializer")
            for info in () if believe_shapes else (*container.value_info, *container.output):
                info.type.tensor_type.ClearField("shape")
    message = ""
    try:
        onnx.shape_inference.infer_shapes(_with_known_operators(_without_endless(proto)), strict_mode=True)
    except Exception as error:  # noqa: BLE001  inference raises many types on odd models
        message = str(error)
    found = {int(number): text for line in message.splitlines() for number, text in _of_own_node(line)}
    return [Contradiction(*places[number], text) for number, text in found.items()]


def _of_own_node(line: str) -> Iterator[tuple[str, str]]:
    """Yield node number and message of a line, unless the node is inside ONNX's definition of an operator."""
    # A line about a node in a subgraph begins with the nodes around it. ONNX defines some operators by functions, whose
    # nodes have no numbers here. Their faults are not faults of the model (MeanVarianceNormalization fails in onnx
    # 1.23.2). The split gives the text before the first node, then a number (or None) and a message for every node.
    _, *parts = _PREFIX.split(line)
    number, text = parts[-2:] if parts else (None, "")
    if number is not None and not text.endswith(_FOLLOWS):
        yield number, _OWN_NAME.sub("", text)


def is_endless(node: onnx.NodeProto) -> bool:
    """Return whether onnx's shape inference never ends for a node.

    Meanwhile it holds Python's lock, so no signal handler runs. Measured with onnx 1.23.2: it happens for an Einsum
    with two ellipses in a term of an input, even if they overlap ("....").
    """
    if node.op_type != "Einsum":
        return False
    equation = next((each.s for each in node.attribute if each.name == "equation"), b"").decode(errors="replace")
    terms = "".join(equation.split()).split("->")[0].split(",")
    return any(term.find(_ELLIPSIS, term.find(_ELLIPSIS) + 1) > 0 for term in terms)


def _with_known_operators(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which ONNX operators replace those of TensorRT's parser, of QONNX and of plugins."""
    return without_plugins(with_identities(with_stand_ins(proto)))


def without_plugins(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which Identities replace the plugin operators whose outputs are like an input."""
    defined = {(function.domain, function.name) for function in proto.functions}
    sources = {each.id: each.source for each in plugin_operators(proto).values() if each.source is not None}
    sources = {key: source for key, source in sources.items() if key not in defined}
    if not any((node.domain, node.op_type) in sources for node in all_nodes(proto)):
        return proto
    copy = copy_model(proto)
    for _, container in [*walk(copy)]:
        for index, node in reversed([*enumerate(container.node)]):
            source = sources.get((node.domain, node.op_type), len(node.input))
            # An absent input has neither type nor shape.
            if source < len(node.input) and node.input[source]:
                made = [
                    onnx.NodeProto(name=node.name, op_type="Identity", input=[node.input[source]], output=[output])
                    for output in filter(None, node.output)
                ]
                del container.node[index]
                for each in reversed(made):
                    container.node.insert(index, each)
    return copy


def _without_endless(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model without the attributes of endless nodes, so that nothing is inferred for these nodes."""
    if not any(map(is_endless, all_nodes(proto))):
        return proto
    copy = copy_model(proto)
    for node in filter(is_endless, all_nodes(copy)):
        node.ClearField("attribute")
    return copy


def _infer(proto: onnx.ModelProto, *, strict: bool = False, follow_numbers: bool = False) -> onnx.ModelProto | None:
    try:
        return onnx.shape_inference.infer_shapes(proto, strict_mode=strict, data_prop=follow_numbers)
    except Exception:  # noqa: BLE001  inference raises many types on odd models
        return None


def _computes_shapes(proto: onnx.ModelProto) -> bool:
    return any(node.op_type in CARRIERS for node in all_nodes(proto))


def _has_long_vector(proto: onnx.ModelProto) -> bool:
    for _, container in walk(proto):
        values = [*container.value_info]
        if isinstance(container, onnx.GraphProto):
            values += [*container.output, *container.input]
        shapes = (value.type.tensor_type.shape.dim for value in values)
        if any(len(dims) == 1 and dims[0].dim_value > LONGEST for dims in shapes):
            return True
    return False
