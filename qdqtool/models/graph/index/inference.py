"""Run ONNX's shape inference with a bound on its memory, and without the nodes on which it never ends.

Data propagation follows the numbers from which shapes are computed: without it, no tensor behind a Shape node has a
shape. It expands every vector that such operators read, with 250 bytes for each element: a graph input of 2^40 elements
in front of a Cast exhausts the memory of the machine. So it runs only where numbers may become shapes, and only where
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

LONGEST = 1 << 14
"""Largest number of elements of a vector with which data propagation runs."""

# Looked up in the bare protobuf, before there is an index whose nodes ops/ could be asked about.
CARRIERS = frozenset({"Cast", "Concat", "Gather", "Range", "Shape", "Size", "Squeeze", "Unsqueeze"})
"""Operators of shape arithmetic. A model without any of them computes no shapes, or only from constants."""


_ELLIPSIS = "..."

_PREFIX = re.compile(r"\(op_type:\w+(?:, node name: #(\d+))?[^)]*\): (?:\[\w+\] )?(?:Inference error\(s\): )?")
_OWN_NAME = re.compile(r" in node \w+ \(#\d+\)\.$")
_FOLLOWS = "expected to have type but instead is null"
"""How lines end that only say that the type of an input is unknown, because its own node has a fault."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """What shape inference makes of a model.

    Attributes:
        proto: A copy with all types and shapes that can be inferred; the model itself where inference fails.
        is_sound: Whether no node contradicts its operator, as a MatMul of matrices that do not fit.
    """

    proto: onnx.ModelProto
    is_sound: bool


@dataclass(frozen=True, slots=True)
class Contradiction:
    """What shape inference says of a node.

    Attributes:
        scope: Path of the scope of the node.
        position: Its position in the scope.
        text: The words of onnx.
    """

    scope: ScopePath
    position: int
    text: str


def infer_types(proto: onnx.ModelProto) -> Inferred:
    """Return a copy with all types and shapes that can be inferred."""
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
    """Return what shape inference says of nodes that contradict their operators, of each node once.

    Args:
        proto: A model of which :func:`infer_types` said that it is not sound; it is changed.
        believe_shapes: Whether inference goes on with the shapes that the model declares of what its nodes make. ONNX
            Runtime goes on with those that it infers.
    """
    places: list[tuple[ScopePath, int]] = []
    for path, container in walk(proto):
        for position, node in enumerate(container.node):
            node.name = f"#{len(places)}"
            places.append((path, position))
        if isinstance(container, onnx.GraphProto):
            # onnx 1.23.2 takes the rank of a sparse initializer for 0.
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
    """Yield the number of the node and the words of a line; nothing where onnx speaks of an operator's own body."""
    # A line about a node in a body begins with the nodes around it. Bodies that onnx gives to an operator have nodes
    # without numbers, and what is wrong with them is no fault of the model: that of MeanVarianceNormalization fails in
    # onnx 1.23.2.
    # What stands in front of the first node, then a number, or None, and words for every node.
    _, *parts = _PREFIX.split(line)
    number, text = parts[-2:] if parts else (None, "")
    if number is not None and not text.endswith(_FOLLOWS):
        yield number, _OWN_NAME.sub("", text)


def is_endless(node: onnx.NodeProto) -> bool:
    """Whether onnx's shape inference never ends on a node.

    It holds Python's lock meanwhile, so that no signal handler runs. Measured with onnx 1.23.2: an Einsum that has a
    second ellipsis in a term of an input, even one that overlaps with the first ("....").
    """
    if node.op_type != "Einsum":
        return False
    equation = next((each.s for each in node.attribute if each.name == "equation"), b"").decode(errors="replace")
    terms = "".join(equation.split()).split("->")[0].split(",")
    return any(term.find(_ELLIPSIS, term.find(_ELLIPSIS) + 1) > 0 for term in terms)


def _with_known_operators(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which operators that ONNX knows stand for those of TensorRT's parser and of QONNX."""
    return with_identities(with_stand_ins(proto))


def _without_endless(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model whose endless nodes have no attributes, so that nothing is inferred for them."""
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
