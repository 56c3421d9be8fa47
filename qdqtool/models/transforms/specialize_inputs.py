"""Write fixed dimensions into the inputs of a model."""

from collections.abc import Mapping

import onnx

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.open_dimensions import known_size
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.transformed import Transformed
from qdqtool.registry import suggestion


def fix_inputs(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Transformed[None]:
    """Write fixed dimensions into the inputs of a model, which is not changed; it is returned where none is given.

    Raises:
        UsageError: A name is not an input, or a shape contradicts the model.
    """
    if not input_shapes:
        return Transformed(model, None)
    fixed = model.fork()
    fixed.proto = proto = copy_model(model.proto, ())
    stored = {tensor.name for tensor in proto.graph.initializer}
    inputs = {value.name: value for value in proto.graph.input if value.name not in stored}
    extents: dict[str, set[int]] = {}
    for name, shape in input_shapes.items():
        if name not in inputs:
            raise UsageError(
                f"'{name}' is no input of the model; the inputs are {', '.join(inputs)}{suggestion(name, inputs)}"
            )
        _fix(inputs[name], shape, extents)
    for value in inputs.values():
        _fix_shared(value, extents)
    return Transformed(fixed, None)


def _fix(value: onnx.ValueInfoProto, shape: tuple[int, ...], extents: dict[str, set[int]]) -> None:
    wanted = "x".join(map(str, shape)) or "scalar"
    if not value.type.HasField("tensor_type"):
        raise UsageError(f"input '{value.name}' is no tensor; it has no shape to fix")
    if any(extent < 1 for extent in shape):
        # An extent of 0 in a model is read as open: qdqtool.models.graph.io.open_dimensions.
        raise UsageError(
            f"shape {wanted} of input '{value.name}' has an extent below 1",
            hint="give data with empty inputs, or fix the extent to 1 or more",
        )
    declared = value.type.tensor_type
    if not declared.HasField("shape"):
        for _ in shape:
            declared.shape.dim.add()
    dims = declared.shape.dim
    if len(dims) != len(shape):
        raise UsageError(f"input '{value.name}' has {len(dims)} dimensions; the shape {wanted} has {len(shape)}")
    for index, (dim, extent) in enumerate(zip(dims, shape, strict=True)):
        if known_size(dim) not in {None, extent}:
            raise UsageError(
                f"dimension {index} of input '{value.name}' is {dim.dim_value} in the model; "
                f"the shape {wanted} has {extent}"
            )
        if dim.dim_param:
            extents.setdefault(dim.dim_param, set()).add(extent)
        dim.dim_value = extent


def _fix_shared(value: onnx.ValueInfoProto, extents: Mapping[str, set[int]]) -> None:
    """Fix symbolic dimensions with the name of a fixed one, where all fixed ones of that name have the same extent."""
    for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
        known = extents.get(dim.dim_param, set()) if dim.dim_param else set()
        if len(known) == 1:
            dim.dim_value = next(iter(known))
