"""Give a model the inputs and outputs of an equivalent model: exporters and quantizers rename them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import onnx
from onnx import TensorProto

from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import node_bodies, walk
from qdqtool.models.targets import type_name

REAL = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})


@dataclass(frozen=True, slots=True)
class Pairing:
    """The inputs and outputs that were paired by position.

    Attributes:
        inputs: The old name of each renamed input, by its new name.
        outputs: The old name of each renamed output, by its new name.
        types: Inputs with a new float type, with the names of the old and the new type.
    """

    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def with_interface_of(model: Model, other: Model) -> Transformed[Pairing]:
    """Return a model with the inputs and outputs of an equivalent model.

    Inputs and outputs with the same name are matched. The others are paired by position, if their number, ranks and
    types are equal in both models and the new names are unused. A float16 input may be paired with a float32 input: a
    Cast is added after it.

    Returns:
        The changed model, or the given model if nothing has to change.
    """
    inputs = _paired(required_inputs(model.proto), required_inputs(other.proto))
    outputs = _paired(list(model.proto.graph.output), list(other.proto.graph.output))
    taken = _names(model.proto)
    names = [given.name for pairs in (inputs, outputs) for mine, given in pairs if mine.name != given.name]
    if any(name in taken for name in names) or len(set(names)) < len(names):
        return Transformed(model, Pairing())
    changed = [(mine, given) for mine, given in inputs if mine.name != given.name or _type(mine) != _type(given)]
    renamed = [(mine, given) for mine, given in outputs if mine.name != given.name]
    report = Pairing(
        {given.name: mine.name for mine, given in inputs if mine.name != given.name},
        {given.name: mine.name for mine, given in renamed},
        {given.name: (_word(mine), _word(given)) for mine, given in inputs if _type(mine) != _type(given)},
    )
    if not changed and not renamed:
        return Transformed(model, report)
    result = model.fork(copy_model(model.proto))
    _take(result.proto.graph, changed)
    _return(result.proto.graph, renamed)
    return Transformed(result, report)


Pairs = list[tuple[onnx.ValueInfoProto, onnx.ValueInfoProto]]


def required_inputs(proto: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a model that have no initializer as default."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in stored]


def _paired(own: Sequence[onnx.ValueInfoProto], wanted: Sequence[onnx.ValueInfoProto]) -> Pairs:
    """Return the pairs, or no pairs if a value has no partner."""
    by_name = {value.name: value for value in own}
    same = [(by_name[value.name], value) for value in wanted if value.name in by_name]
    known = {mine.name for mine, _ in same}
    rest = [value for value in own if value.name not in known], [value for value in wanted if value.name not in known]
    if len(rest[0]) != len(rest[1]):
        return []
    pairs = [*same, *zip(*rest, strict=True)]
    return pairs if all(_agree(mine, given) for mine, given in pairs) else []


def _agree(mine: onnx.ValueInfoProto, given: onnx.ValueInfoProto) -> bool:
    left, right = mine.type.tensor_type, given.type.tensor_type
    ranks = {len(each.shape.dim) for each in (left, right) if each.HasField("shape")}
    types = {left.elem_type, right.elem_type}
    return len(ranks) <= 1 and (len(types) == 1 or types <= REAL)


def _take(graph: onnx.GraphProto, pairs: Pairs) -> None:
    """Change names and types of graph inputs; the old names become inner tensors."""
    for number, (mine, given) in enumerate(pairs):
        inner = mine.name if mine.name != given.name else f"{mine.name}/own_type"
        node = onnx.helper.make_node("Cast", [given.name], [inner], to=_type(mine))
        if inner != mine.name:
            _reread(graph, mine.name, inner)
        graph.node.insert(number, node)
        position = next(index for index, value in enumerate(graph.input) if value.name == mine.name)
        graph.input[position].CopyFrom(given)


def _reread(graph: onnx.GraphProto, name: str, new: str) -> None:
    """Make the nodes of a graph and its subgraphs read ``new`` instead of ``name``, which no subgraph may redefine."""
    for node in graph.node:
        for index, read in enumerate(node.input):
            if read == name:
                node.input[index] = new
        for _, body in node_bodies(node):
            _reread(body, name, new)


def _return(graph: onnx.GraphProto, pairs: Pairs) -> None:
    for mine, given in pairs:
        graph.node.append(onnx.helper.make_node("Identity", [mine.name], [given.name]))
        position = next(index for index, value in enumerate(graph.output) if value.name == mine.name)
        graph.output[position].name = given.name


def _names(proto: onnx.ModelProto) -> set[str]:
    names = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    for _, container in walk(proto):
        names.update(name for node in container.node for name in node.output)
        names.update(tensor.name for tensor in getattr(container, "initializer", ()))
    return names


def _type(value: onnx.ValueInfoProto) -> int:
    return value.type.tensor_type.elem_type


def _word(value: onnx.ValueInfoProto) -> str:
    return type_name(_type(value))
