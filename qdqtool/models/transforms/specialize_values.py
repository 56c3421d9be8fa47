"""Turn inputs of a model into constants, and record their values in the model's metadata."""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
import onnx

from qdqtool.errors import UsageError
from qdqtool.models.graph.index.types import known_size
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.metadata import INPUT_VALUES_KEY, read_metadata, with_metadata
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.targets import type_name
from qdqtool.models.transforms.interface import required_inputs
from qdqtool.numerics.dtypes import BFLOAT16, Array
from qdqtool.registry import suggestion


def fix_inputs(model: Model, input_shapes: Mapping[str, tuple[int, ...]]) -> Transformed[None]:
    """Return a copy with fixed dimensions in the inputs; return the given model if there are no shapes.

    Raises:
        UsageError: A name is not an input, or a shape contradicts the model.
    """
    if not input_shapes:
        return Transformed(model, None)
    fixed = model.fork(copy_model(model.proto))
    inputs = {value.name: value for value in required_inputs(fixed.proto)}
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
        # An extent of 0 in a model means a dynamic dimension: qdqtool.models.graph.index.types.
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
    """Fix a symbolic dimension if all fixed dimensions of the same name have the same extent."""
    for dim in value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ():
        known = extents.get(dim.dim_param, set()) if dim.dim_param else set()
        if len(known) == 1:
            dim.dim_value = next(iter(known))


LAST_LISTED = 3
"""The last IR version in which every initializer must also be an input."""


def fix_values(model: Model, values: Mapping[str, Sequence[float]]) -> Transformed[None]:
    """Turn inputs of a model into initializers, and record their values in the metadata.

    Args:
        model: The model; it is not changed.
        values: By input name, the elements in row-major order, or one value for all elements. A former input that is a
            constant now is allowed if the value is the same.

    Raises:
        UsageError: A name is no input, its shape is unknown, a value does not fit the type or shape, or a former input
            is a constant with a different value.
    """
    fixed = dict(fixed_values(model))
    values = {name: given for name, given in values.items() if not _is_fixed(name, given, fixed)}
    if not values:
        return Transformed(model, None)
    inputs = {value.name: value for value in required_inputs(model.proto)}
    special = model.fork(copy_model(model.proto))
    proto = special.proto
    for name, given in values.items():
        if name not in inputs:
            raise UsageError(
                f"--input-values names '{name}', which is no input of the model; the inputs are "
                f"{', '.join(inputs) or 'none'}{suggestion(name, inputs)}"
            )
        fixed[name] = _array(inputs[name], given)
        proto.graph.initializer.append(make_tensor(name, fixed[name], inputs[name].type.tensor_type.elem_type))
    if proto.ir_version > LAST_LISTED:
        kept = [value for value in proto.graph.input if value.name not in values]
        del proto.graph.input[:]
        proto.graph.input.extend(kept)
    noted = {name: array.tolist() for name, array in fixed.items()}
    return Transformed(with_metadata(special, {INPUT_VALUES_KEY: msgspec.json.encode(noted).decode()}), None)


def fixed_values(model: Model) -> Mapping[str, Array]:
    """Return the values of former inputs that are constants now, by name, from the metadata.

    A malformed record is ignored.
    """
    text = read_metadata(model, INPUT_VALUES_KEY)
    try:
        noted = msgspec.json.decode(text, type=dict[str, Any]) if text is not None else {}
        found = {name: np.asarray(values) for name, values in noted.items()}
    except (msgspec.DecodeError, ValueError, RecursionError):
        return {}
    return {name: values for name, values in found.items() if values.dtype.kind in _KINDS}


def _is_fixed(name: str, given: Sequence[float], fixed: Mapping[str, Array]) -> bool:
    """Return whether a former input is already a constant of that value; refuse another value."""
    if name not in fixed:
        return False
    if not np.all(fixed[name] == np.reshape(given, fixed[name].shape if len(given) > 1 else ())):
        raise UsageError(
            f"--input-values gives input '{name}' {list(given)}; the model has it as a constant of "
            f"{fixed[name].tolist()}",
            hint="give the same value, or start from the model that still has the input",
        )
    return True


def _array(value: onnx.ValueInfoProto, given: Sequence[float]) -> Array:
    """Return the values of an input as an array of its type and shape."""
    shape = _shape(value, len(given))
    if len(given) not in {1, math.prod(shape)}:
        raise UsageError(
            f"--input-values gives input '{value.name}' {len(given)} values; "
            f"its shape {list(shape)} has {math.prod(shape)}"
        )
    dtype = _dtype(value)
    for each in given:
        if not _is_of(each, dtype):
            raise UsageError(f"--input-values gives input '{value.name}' the value {each}, which is no {dtype}")
    return np.broadcast_to(np.array(given, dtype).reshape(shape if len(given) > 1 else ()), shape)


def _shape(value: onnx.ValueInfoProto, count: int) -> tuple[int, ...]:
    """Return the shape of an input. A vector of dynamic length gets the length of the given values."""
    kind = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not kind.HasField("shape"):
        raise UsageError(f"input '{value.name}' declares no shape, so --input-values cannot fix it")
    extents = [known_size(dim) for dim in kind.shape.dim]
    if extents == [None]:
        return (count,)
    known = tuple(extent for extent in extents if extent is not None)
    if len(known) < len(extents):
        shape = "x".join(str(extent or 1) for extent in extents)
        raise UsageError(
            f"input '{value.name}' has open dimensions, so --input-values cannot fix it",
            hint=f"give its shape too, for example: `--input-shapes {shlex.quote(f'{value.name}:{shape}')}`",
        )
    return known


def _dtype(value: onnx.ValueInfoProto) -> np.dtype[Any]:
    elem_type = value.type.tensor_type.elem_type
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    if dtype.kind not in _KINDS and dtype != BFLOAT16:
        raise UsageError(f"input '{value.name}' is {type_name(elem_type)}; --input-values fixes numbers and booleans")
    return dtype


def _is_of(value: float, dtype: np.dtype[Any]) -> bool:
    """Return whether a type can represent a value; a float type may round it."""
    if dtype.kind == "b":
        return value in {0, 1}
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return float(value).is_integer() and limits.min <= value <= limits.max
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.array(value, dtype)))


_KINDS = "biuf"
