"""Simplify the model: remove outputs, optional inputs, attributes and notes, and set weights to zeros or ones."""

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial

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
"""Largest constant that may replace the node that computes it."""


def fold_constants(search: Search) -> None:
    """Replace the constant nodes of the main graph by initializers, or by graph inputs if the value is unknown."""
    graph = Subgraphs(search.best, search.kept_unused)
    layers = [node.index for node in graph.nodes if node.index not in graph.constant]
    folded = sorted(graph.constant)
    if folded and layers:
        minimal_subset(folded, lambda kept: search.accepts(_without(graph, [*layers, *kept])))


def _without(graph: Subgraphs, kept: list[int]) -> Model | None:
    """Return the model of these nodes, in which stored values replace the constant nodes that are left out."""
    model = graph.keep(kept)
    if model is None:
        return None
    main = graph.index.view.main.values
    makers = {info.name: main[info.name].producer for info in model.proto.graph.input}
    cut = {name for name, maker in makers.items() if maker is not None and maker.index in graph.constant}
    for info in [each for each in model.proto.graph.input if each.name in cut]:
        array, elem_type = graph.index.constant(main[info.name]), graph.index.types.elem_type(main[info.name])
        if array is None or elem_type is None or array.nbytes > _MOST_CONSTANT_BYTES:
            continue
        model.proto.graph.input.remove(info)
        model.proto.graph.initializer.append(make_tensor(info.name, array, elem_type))
    return model


_WEIGHTS = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE}
    | {TensorProto.INT8, TensorProto.UINT8}
)
"""Types of weights; int32 and int64 are left out, because their values may be shapes, axes and indices."""

_MOST_BYTES = 1 << 28
"""Larger weights are not read."""

_MOST_FILTERED = 200
"""Up to this number, simplifications are first tested one by one."""


Simplification = Callable[[onnx.ModelProto], None]
"""One change that makes a model simpler."""


def _remove_notes(proto: onnx.ModelProto) -> None:
    """Remove descriptions, metadata and the name of the producer."""
    for field in ("doc_string", "metadata_props", "producer_name", "producer_version", "domain", "model_version"):
        proto.ClearField(field)
    for _, container in walk(proto):
        for each in (container, *container.node):
            each.ClearField("doc_string")
            each.ClearField("metadata_props")


def _remove_output(name: str, proto: onnx.ModelProto) -> None:
    """Remove a graph output, unless it is the last one."""
    left = [value for value in proto.graph.output if value.name != name]
    if left:
        del proto.graph.output[:]
        proto.graph.output.extend(left)


def _remove_attribute(index: int, name: str, proto: onnx.ModelProto) -> None:
    """Remove an attribute, so that its default value is used."""
    node = _node(proto, index)
    node.attribute.remove(next(each for each in node.attribute if each.name == name))


def _remove_input(index: int, position: int, proto: onnx.ModelProto) -> None:
    """Remove an optional input of a node."""
    node = _node(proto, index)
    node.input[position] = ""
    while node.input and not node.input[-1]:
        del node.input[-1]


def _level_weights(name: str, value: int, proto: onnx.ModelProto) -> None:
    """Set all elements of a tensor to one value, stored as raw data in the model."""
    tensor = next(each for each in proto.graph.initializer if each.name == name)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    for field in ("float_data", "int32_data", "double_data"):
        tensor.ClearField(field)
    set_inline(tensor, np.full(tuple(tensor.dims), value, dtype).tobytes())


def simplify(search: Search) -> None:
    """Apply all simplifications together, or as many as possible without changing the failure."""
    model = search.best
    items = [*_simplifications(model)]
    if len(items) <= _MOST_FILTERED:
        # A simplification that makes the model invalid would spoil the attempt with all of them.
        items = [item for item in items if search.is_valid(_simplified(model, search, [item], []))]
    if items:
        minimal_subset(items, lambda left: search.accepts(_simplified(model, search, items, left)))


def _simplified(model: Model, search: Search, items: Sequence[Simplification], left: Sequence[Simplification]) -> Model:
    proto = copy.deepcopy(model.proto)
    done = [item for item in items if item not in left]
    for item in done:
        item(proto)
    return with_proto(model, pruned(proto, search.kept_unused)) if done else model


def _simplifications(model: Model) -> Iterator[Simplification]:
    yield _remove_notes
    if len(model.proto.graph.output) > 1:
        yield from (partial(_remove_output, value.name) for value in model.proto.graph.output)
    opsets = {entry.domain: entry.version for entry in model.proto.opset_import}
    for index, node in enumerate(_nodes(model.proto)):
        schema = _schema(node, opsets)
        if schema is None:
            continue
        for attribute in node.attribute:
            known = schema.attributes.get(attribute.name)
            if known is not None and not known.required:
                yield partial(_remove_attribute, index, attribute.name)
        optional = defs.OpSchema.FormalParameterOption.Optional
        for position, name in enumerate(node.input):
            if name and position < len(schema.inputs) and schema.inputs[position].option == optional:
                yield partial(_remove_input, index, position)
    yield from _plain_weights(model)


def _plain_weights(model: Model) -> Iterator[Simplification]:
    for tensor in model.proto.graph.initializer:
        if tensor.data_type not in _WEIGHTS or nbytes(tensor) > _MOST_BYTES or min(tensor.dims, default=0) < 0:
            continue
        array = np.asarray(read_array(model, tensor), np.float64)
        # Scales are positive and cannot be 0.
        value = int(bool(array.size) and bool((array > 0).all()))
        if array.size and not (array == value).all():
            yield partial(_level_weights, tensor.name, value)


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
