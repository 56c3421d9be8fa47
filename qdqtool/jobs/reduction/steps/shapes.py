"""Make tensors small: an extent is replaced by a smaller one wherever it occurs, if shape inference agrees."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import onnx
from onnx import TensorProto

from qdqtool.jobs.reduction.search import Search
from qdqtool.jobs.reduction.subgraph import with_proto
from qdqtool.models.graph.index.inference import infer_types
from qdqtool.models.graph.io.tensors import make_tensor, nbytes, read_array
from qdqtool.models.graph.io.without_weights import without_weights
from qdqtool.models.graph.model import Model

_TARGETS = (1, 2, 8)
"""Extents that are tried in place of a larger one. Of 2 elements it is seen along which axis something goes."""

_MOST_EXTENTS = 12
"""Only so many extents are made smaller one by one, the most frequent first."""

_MOST_BYTES = 1 << 28
"""Larger weights are not cut."""


@dataclass(frozen=True, slots=True)
class Resize:
    """New extents for old ones.

    Attributes:
        extents: The new extent by the old one.
        with_weights: Whether stored tensors change too, and not the graph inputs alone.
    """

    extents: Mapping[int, int]
    with_weights: bool


def shrink_shapes(search: Search) -> None:
    """Make all extents small at once; if that does not fail alike, one extent after another."""
    extents = [extent for extent, _ in Counter(_extents(search.best)).most_common(_MOST_EXTENTS)]
    for target in _TARGETS:
        larger = {extent: target for extent in extents if extent > target}
        if len(larger) > 1 and _takes(search, larger):
            return
    for extent in sorted(extents, reverse=True):
        any(_takes(search, {extent: target}) for target in _TARGETS if target < extent)


def _takes(search: Search, extents: Mapping[int, int]) -> bool:
    return any(search.accepts(_resized(search.best, Resize(extents, both))) for both in (True, False))


def _extents(model: Model) -> Iterator[int]:
    """The extents above 1 of inputs and weights."""
    graph = model.proto.graph
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.input]
    shapes += [list(tensor.dims) for tensor in graph.initializer]
    return (extent for shape in shapes for extent in shape if extent > 1)


def _resized(model: Model, resize: Resize) -> Model | None:
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    changed = sum(_resize_input(value, resize.extents) for value in proto.graph.input)
    for tensor in proto.graph.initializer if resize.with_weights else ():
        if nbytes(tensor) <= _MOST_BYTES:
            changed += _resize_tensor(model, tensor, resize.extents)
    if not changed:
        return None
    del proto.graph.value_info[:]
    _declare_outputs(proto)
    return with_proto(model, proto)


def _resize_input(value: onnx.ValueInfoProto, extents: Mapping[int, int]) -> int:
    changed = 0
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_value in extents:
            dim.dim_value = extents[dim.dim_value]
            changed += 1
    return changed


def _resize_tensor(model: Model, tensor: TensorProto, extents: Mapping[int, int]) -> int:
    """Cut a stored tensor; the numbers of a vector of int64, which may be a shape, are replaced."""
    new: Callable[[int], int] = lambda extent: extents.get(extent, extent)  # noqa: E731
    dims = tuple(map(new, tensor.dims))
    array = read_array(model, tensor)
    if tensor.data_type == TensorProto.INT64 and len(dims) == 1:
        changed = make_tensor(tensor.name, [new(int(each)) for each in array], TensorProto.INT64)
    elif dims != tuple(tensor.dims):
        changed = make_tensor(tensor.name, array[tuple(map(slice, dims))], tensor.data_type)
    else:
        return 0
    is_other = changed.dims != tensor.dims or changed.raw_data != array.tobytes()
    tensor.CopyFrom(changed)
    return int(is_other)


def _declare_outputs(proto: onnx.ModelProto) -> None:
    """Give the graph outputs the shapes that follow from the new ones."""
    for output in proto.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = infer_types(without_weights(proto)).proto.graph.output
    for output, known in zip(proto.graph.output, inferred, strict=True):
        if known.type.tensor_type.HasField("shape"):
            output.type.CopyFrom(known.type)
