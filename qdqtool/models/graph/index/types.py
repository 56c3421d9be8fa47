"""Infer element types and shapes of tensors with ONNX's shape inference, on a copy without weights.

Inference never raises: an unknown type or shape is None, and a model that ONNX rejects keeps its declared types.

Exporters write 0 or -1 for a size that is not known. ONNX has no number for it, and libraries differ: ONNX Runtime
takes -1 as open and 0 as a size, onnx's shape inference calculates with both, and NumPy refuses -1.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

import onnx
from onnx import TensorProto

from qdqtool.models.graph.index.inference import Contradiction, contradictions, infer_types
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.graph.io.copying import copy_model, without_weights
from qdqtool.models.graph.io.tensors import element_count, is_external
from qdqtool.models.graph.scope import ScopePath, function_path, walk


def known_size(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    """Return the size of a dimension of an input; None where it is open."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None


def with_open_dimensions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model where input dimensions with a size of 0 or less are open; the model itself if there are none."""
    if not any(_is_odd(dim) for value in proto.graph.input for dim in _dims(value)):
        return proto
    copy = copy_model(proto)
    # What was computed from an input of size 0 has size 0 too.
    for value in (*copy.graph.input, *copy.graph.output, *copy.graph.value_info):
        for dim in filter(_is_odd, _dims(value)):
            dim.ClearField("dim_value")
    return copy


def _is_odd(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and known_size(dim) is None


def _dims(value: onnx.ValueInfoProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    if value.type.HasField("tensor_type"):
        yield from value.type.tensor_type.shape.dim


Shape = tuple[int | str | None, ...]
"""Known extents as int, symbolic ones as str, unknown ones as None."""

SMALL_BYTES = 1 << 23


def static_shape(shape: Shape | None) -> tuple[int, ...] | None:
    """Return a shape whose every extent is known; None for any other."""
    known = tuple(extent for extent in shape or () if isinstance(extent, int))
    return known if shape is not None and len(known) == len(shape) else None


def may_be_equal(left: Shape, right: Shape) -> bool:
    """Whether two shapes can be the same.

    Shape inference gives every extent that it cannot compute a name of its own, so names that differ say nothing: both
    sides of a residual Add behind a Conv on images of open size have other ones. An extent of 1 beside a name is taken
    for a broadcast, except on axis 0, where it is a batch of one.
    """
    return len(left) == len(right) and all(map(_may_be, range(len(left)), left, right))


def _may_be(axis: int, one: int | str | None, other: int | str | None) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return one == other or axis == 0 or 1 not in {one, other}


_Key = tuple[ScopePath, str]


class TensorTypes:
    """Types and shapes of the tensors of one model.

    The body of a local function is inferred with the argument types of its first call.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._types: dict[_Key, onnx.TypeProto] = {}
        stripped = _without_weights(view.model.proto)
        inferred = infer_types(stripped)
        self._is_sound = inferred.is_sound
        self._collect(inferred.proto)
        self._infer_functions(stripped)

    def elem_type(self, value: Value) -> int | None:
        """The ``TensorProto.DataType`` of a tensor, or None where it is unknown."""
        if value.initializer is not None:
            return value.initializer.data_type
        tensor = self._tensor_type(value)
        return tensor.elem_type if tensor is not None and tensor.elem_type else None

    def shape(self, value: Value) -> Shape | None:
        """The shape of a tensor, or None where not even the rank is known."""
        if value.initializer is not None:
            return tuple(value.initializer.dims)
        tensor = self._tensor_type(value)
        if tensor is None or not tensor.HasField("shape"):
            return None
        return tuple(_extent(dim) for dim in tensor.shape.dim)

    def full_shape(self, value: Value) -> tuple[int, ...] | None:
        """The shape of a tensor where every extent is known, else None."""
        return static_shape(self.shape(value))

    def type_proto(self, value: Value) -> onnx.TypeProto | None:
        """The ONNX type of a tensor, sequence, map or optional, or None where it is unknown."""
        key = value.scope.path, value.name
        found = self._types.get(key)
        if found is None:
            stored = _stored(value)
            if stored is not None:
                found = self._types[key] = onnx.helper.make_tensor_type_proto(stored.data_type, list(stored.dims))
        return found

    def _tensor_type(self, value: Value) -> onnx.TypeProto.Tensor | None:
        found = self.type_proto(value)
        return found.tensor_type if found is not None else None

    @cached_property
    def contradictions(self) -> Sequence[Contradiction]:
        """What shape inference says of nodes whose inputs do not fit their operator."""
        return [] if self._is_sound else contradictions(_without_weights(self._view.model.proto))

    @cached_property
    def contradictions_of_inferred(self) -> Sequence[Contradiction]:
        """The same, where inference does not believe the shapes that the model declares of what its nodes make."""
        if self._is_sound:
            return []
        return contradictions(_without_weights(self._view.model.proto), believe_shapes=False)

    def _collect(self, proto: onnx.ModelProto, root: ScopePath = ()) -> None:
        for path, container in walk(proto):
            if not isinstance(container, onnx.GraphProto):
                continue
            here = (*root, *path)
            for info in (*container.value_info, *container.output, *container.input):
                if info.HasField("type"):
                    self._types[here, info.name] = info.type

    # ONNX's inference does not fill in the value_info of local functions, so each function is inferred as a graph of
    # its own.
    def _infer_functions(self, stripped: onnx.ModelProto) -> None:
        waiting = {function_path(function): function for function in stripped.functions}
        while ready := [path for path in waiting if self._first_call(path) is not None]:
            for path in ready:
                self._infer_function(waiting.pop(path), self._first_call(path), stripped)

    def _first_call(self, path: ScopePath) -> NodeView | None:
        """Return the first call of a function whose inputs all have known types; None where there is none."""
        calls = self._view.scope(path).calls
        return next((call for call in calls if all(map(self._is_known, call.inputs, call.proto.input))), None)

    def _is_known(self, value: Value | None, name: str) -> bool:
        return not name or (value is not None and self.type_proto(value) is not None)

    def _infer_function(self, function: onnx.FunctionProto, call: NodeView | None, stripped: onnx.ModelProto) -> None:
        assert call is not None
        graph = onnx.GraphProto(name="body", node=function.node)
        for index, name in enumerate(function.input):
            value = call.input(index)
            known = self.type_proto(value) if value is not None else None
            if known is not None:
                graph.input.add(name=name).type.CopyFrom(known)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
        model = onnx.ModelProto(ir_version=stripped.ir_version, graph=graph, opset_import=function.opset_import)
        model.functions.extend(stripped.functions)
        declared = {info.name: info.type for info in function.value_info if info.HasField("type")}
        path = function_path(function)
        self._types.update({(path, name): kind for name, kind in declared.items()})
        self._collect(infer_types(model).proto, path)


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model without weights that would cost memory; of small models copy everything, which is much faster."""
    proto = with_open_dimensions(proto)
    if _has_large_weights(proto) or proto.ByteSize() > SMALL_BYTES:
        return without_weights(proto)
    copy = copy_model(proto)
    copy.ClearField("training_info")
    return copy


def _has_large_weights(proto: onnx.ModelProto) -> bool:
    """Tell models of large inline weights at once: to tell their number of bytes, protobuf makes all of them."""
    return sum(element_count(each) for each in proto.graph.initializer if not is_external(each)) > SMALL_BYTES


def _extent(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param or None


def _stored(value: Value) -> TensorProto | None:
    """Return the stored tensor of an initializer or of a Constant node; None for others."""
    if value.producer is None or value.producer.op_type != "Constant":
        return value.initializer
    found = value.producer.attribute("value")
    return found if isinstance(found, TensorProto) else None
