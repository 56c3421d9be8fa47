"""Make what is left plain: without outputs, optional inputs, attributes and notes, with weights of zeros or ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx
from onnx import TensorProto, defs

from qdqtool.jobs.reduction.minimal_subset import minimal_subset
from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.subgraph import Subgraphs, pruned, with_proto
from qdqtool.models.graph.io.data_file import set_inline
from qdqtool.models.graph.io.tensors import make_tensor, nbytes, read_array
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import walk

_MOST_CONSTANT_BYTES = 1 << 26
"""The largest constant that is stored in place of the node that computes it."""


def fold_constants(search: Search) -> None:
    """Replace the constant nodes of the main graph by initializers, or by graph inputs where the value is unknown."""
    graph = Subgraphs(search.best, search.kept_unused)
    layers = [node.index for node in graph.nodes if node.index not in graph.constant]
    folded = sorted(graph.constant)
    if folded and layers:
        minimal_subset(folded, lambda kept: search.accepts(_without(graph, [*layers, *kept])))


def _without(graph: Subgraphs, kept: list[int]) -> Model | None:
    """The model of these nodes, with values in place of the constant nodes that are left out."""
    model = graph.keep(kept)
    if model is None:
        return None
    main = graph.index.view.main.values
    cut = [info for info in model.proto.graph.input if _is_cut(graph, info)]
    for info in cut:
        array, elem_type = graph.index.constant(main[info.name]), graph.index.types.elem_type(main[info.name])
        if array is None or elem_type is None or array.nbytes > _MOST_CONSTANT_BYTES:
            continue
        model.proto.graph.input.remove(info)
        model.proto.graph.initializer.append(make_tensor(info.name, array, elem_type))
    return model


def _is_cut(graph: Subgraphs, info: onnx.ValueInfoProto) -> bool:
    maker = graph.index.view.main.values[info.name].producer
    return maker is not None and maker.index in graph.constant


_WEIGHTS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
    | {TensorProto.INT8, TensorProto.UINT8}
)
"""Types whose values are numbers; those of int32 and int64 may be shapes, axes and indices."""

_MOST_BYTES = 1 << 28
"""Larger weights are not looked at."""

_MOST_FILTERED = 200
"""Of more simplifications, none is tried alone first."""


class Simplification(Protocol):
    """One change that makes a model plainer."""

    def apply(self, proto: onnx.ModelProto) -> None:
        """Make the change."""


@dataclass(frozen=True, slots=True)
class WithoutNotes:
    """Descriptions, metadata and the name of the producer go."""

    def apply(self, proto: onnx.ModelProto) -> None:
        """Remove them from the model, its graphs and its nodes."""
        for field in ("doc_string", "metadata_props", "producer_name", "producer_version", "domain", "model_version"):
            proto.ClearField(field)
        for _, container in walk(proto):
            container.ClearField("doc_string")
            container.ClearField("metadata_props")
            for node in container.node:
                node.ClearField("doc_string")
                node.ClearField("metadata_props")


@dataclass(frozen=True, slots=True)
class WithoutOutput:
    """A graph output goes."""

    name: str

    def apply(self, proto: onnx.ModelProto) -> None:
        """Remove it, unless it is the last one."""
        left = [value for value in proto.graph.output if value.name != self.name]
        if left:
            del proto.graph.output[:]
            proto.graph.output.extend(left)


@dataclass(frozen=True, slots=True)
class DefaultAttribute:
    """An attribute gets its default value."""

    node: int
    name: str

    def apply(self, proto: onnx.ModelProto) -> None:
        """Remove it from the node."""
        node = _node(proto, self.node)
        node.attribute.remove(next(each for each in node.attribute if each.name == self.name))


@dataclass(frozen=True, slots=True)
class WithoutInput:
    """An optional input of a node goes."""

    node: int
    position: int

    def apply(self, proto: onnx.ModelProto) -> None:
        """Leave it empty."""
        node = _node(proto, self.node)
        node.input[self.position] = ""
        while node.input and not node.input[-1]:
            del node.input[-1]


@dataclass(frozen=True, slots=True)
class PlainWeights:
    """A stored tensor gets one value throughout."""

    name: str
    value: int
    size: int

    def apply(self, proto: onnx.ModelProto) -> None:
        """Store it as raw data in the model."""
        tensor = next(each for each in proto.graph.initializer if each.name == self.name)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        for field in ("float_data", "int32_data", "double_data"):
            tensor.ClearField(field)
        set_inline(tensor, np.full(tuple(tensor.dims), self.value, dtype).tobytes())


def simplify(search: Search) -> None:
    """Take all simplifications at once, or as many of them as leave the failure as it is."""
    model = search.best
    items: list[Simplification] = [*_simplifications(model)]
    if len(items) <= _MOST_FILTERED:
        # One that makes the model invalid would spoil the attempt to take all at once.
        items = [item for item in items if search.is_valid(_simplified(model, search, [item], []))]
    if items:
        minimal_subset(items, lambda left: search.accepts(_simplified(model, search, items, left)))


def _simplified(model: Model, search: Search, items: Sequence[Simplification], left: Sequence[Simplification]) -> Model:
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    done = [item for item in items if item not in left]
    for item in done:
        item.apply(proto)
    return with_proto(model, pruned(proto, search.kept_unused)) if done else model


def _simplifications(model: Model) -> Iterator[Simplification]:
    yield WithoutNotes()
    if len(model.proto.graph.output) > 1:
        yield from (WithoutOutput(value.name) for value in model.proto.graph.output)
    opsets = {entry.domain: entry.version for entry in model.proto.opset_import}
    for index, node in enumerate(_nodes(model.proto)):
        schema = _schema(node, opsets)
        if schema is None:
            continue
        for attribute in node.attribute:
            known = schema.attributes.get(attribute.name)
            if known is not None and not known.required:
                yield DefaultAttribute(index, attribute.name)
        optional = defs.OpSchema.FormalParameterOption.Optional
        for position, name in enumerate(node.input):
            if name and position < len(schema.inputs) and schema.inputs[position].option == optional:
                yield WithoutInput(index, position)
    yield from _plain_weights(model)


def _plain_weights(model: Model) -> Iterator[Simplification]:
    for tensor in model.proto.graph.initializer:
        if tensor.data_type not in _WEIGHTS or nbytes(tensor) > _MOST_BYTES:
            continue
        array = np.asarray(read_array(model, tensor), np.float64)
        # Scales are positive, and 0 is none.
        value = int(bool(array.size) and bool((array > 0).all()))
        if array.size and not (array == value).all():
            yield PlainWeights(tensor.name, value, nbytes(tensor))


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return (node for _, container in walk(proto) for node in container.node)


def _node(proto: onnx.ModelProto, index: int) -> onnx.NodeProto:
    return next(node for position, node in enumerate(_nodes(proto)) if position == index)


def _schema(node: onnx.NodeProto, opsets: dict[str, int]) -> defs.OpSchema | None:
    domain = "" if node.domain == "ai.onnx" else node.domain
    try:
        return defs.get_schema(node.op_type, opsets.get(domain, 1), domain)
    except defs.SchemaError:
        return None
