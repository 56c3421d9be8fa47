"""Infer element types and shapes of tensors with ONNX's shape inference, on a copy without weights.

Inference never raises: an unknown type or shape is None. If ONNX rejects a model, its declared types are used.

Exporters write 0 or -1 for an unknown size. ONNX does not define this, and libraries differ. For ONNX Runtime, -1 is
dynamic and 0 is a size. onnx's shape inference calculates with both, and NumPy refuses -1.
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
    """Return the size of a dimension of an input, or None if it is dynamic."""
    return dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else None


def with_open_dimensions(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which input dimensions of size 0 or less are dynamic; the same model if there are none."""
    if not any(_is_odd(dim) for value in proto.graph.input for dim in _dims(value)):
        return proto
    copy = copy_model(proto)
    # Dimensions computed from a dimension of size 0 are 0 too.
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
"""Known extents as int, symbolic extents as str, unknown extents as None."""

SMALL_BYTES = 1 << 23


def static_shape(shape: Shape | None) -> tuple[int, ...] | None:
    """Return the shape if every extent is known, else None."""
    known = tuple(extent for extent in shape or () if isinstance(extent, int))
    return known if shape is not None and len(known) == len(shape) else None


def may_be_equal(left: Shape, right: Shape) -> bool:
    """Return whether two shapes can be the same.

    Shape inference gives every extent that it cannot compute a new name, so different names may be the same extent.
    Example: the two inputs of a residual Add after a Conv, if the size of the image is dynamic. An extent of 1 and a
    named extent are not equal, because the operator broadcasts. On axis 0 they may be equal: 1 may be a batch of one.
    """
    return len(left) == len(right) and all(map(_may_be, range(len(left)), left, right))


def _may_be(axis: int, one: int | str | None, other: int | str | None) -> bool:
    if isinstance(one, int) and isinstance(other, int):
        return one == other
    return one == other or axis == 0 or 1 not in {one, other}


_Key = tuple[ScopePath, str]


class TensorTypes:
    """Types and shapes of the tensors of one model.

    Types inside a local function are inferred with the argument types of its first call.
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
        """Return the ``TensorProto.DataType`` of a tensor, or None if it is unknown."""
        if value.initializer is not None:
            return value.initializer.data_type
        tensor = self._tensor_type(value)
        return tensor.elem_type if tensor is not None and tensor.elem_type else None

    def shape(self, value: Value) -> Shape | None:
        """Return the shape of a tensor, or None if even the rank is unknown."""
        if value.initializer is not None:
            return tuple(value.initializer.dims)
        tensor = self._tensor_type(value)
        if tensor is None or not tensor.HasField("shape"):
            return None
        return tuple(_extent(dim) for dim in tensor.shape.dim)

    def full_shape(self, value: Value) -> tuple[int, ...] | None:
        """Return the shape of a tensor if every extent is known, else None."""
        return static_shape(self.shape(value))

    def type_proto(self, value: Value) -> onnx.TypeProto | None:
        """Return the ONNX type of a tensor, sequence, map or optional, or None if it is unknown."""
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
        """The messages of shape inference about nodes whose inputs do not fit their operator."""
        return [] if self._is_sound else contradictions(_without_weights(self._view.model.proto))

    @cached_property
    def contradictions_of_inferred(self) -> Sequence[Contradiction]:
        """The same messages, if inference ignores the declared shapes of node outputs."""
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

    # ONNX's inference does not fill in the value_info of local functions, so each function is inferred as a separate
    # graph.
    def _infer_functions(self, stripped: onnx.ModelProto) -> None:
        waiting = {function_path(function): function for function in stripped.functions}
        while ready := [path for path in waiting if self._first_call(path) is not None]:
            for path in ready:
                self._infer_function(waiting.pop(path), self._first_call(path), stripped)

    def _first_call(self, path: ScopePath) -> NodeView | None:
        """Return the first call of a function whose inputs all have known types, or None if there is none."""
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
        model.metadata_props.extend(stripped.metadata_props)
        declared = {info.name: info.type for info in function.value_info if info.HasField("type")}
        path = function_path(function)
        self._types.update({(path, name): kind for name, kind in declared.items()})
        self._collect(infer_types(model).proto, path)


def _without_weights(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model without large weights, to save memory; copy a small model completely, which is much faster."""
    proto = with_open_dimensions(proto)
    if _has_large_weights(proto) or proto.ByteSize() > SMALL_BYTES:
        return without_weights(proto)
    copy = copy_model(proto)
    copy.ClearField("training_info")
    return copy


def _has_large_weights(proto: onnx.ModelProto) -> bool:
    """Return whether inline weights are large. Without this test, protobuf would copy all bytes to count them."""
    return sum(element_count(each) for each in proto.graph.initializer if not is_external(each)) > SMALL_BYTES


def _extent(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return dim.dim_value
    return dim.dim_param or None


def _stored(value: Value) -> TensorProto | None:
    """Return the stored tensor of an initializer or of a Constant node, or None for other values."""
    if value.producer is None or value.producer.op_type != "Constant":
        return value.initializer
    found = value.producer.attribute("value")
    return found if isinstance(found, TensorProto) else None
