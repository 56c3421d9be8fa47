"""Convert between TensorProto and array, one tensor at a time; external weights are memory-mapped, not loaded."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, numpy_helper

from qdqtool.errors import ModelError
from qdqtool.models.graph.model import PENDING_LOCATION, Model
from qdqtool.models.graph.scope import walk
from qdqtool.models.payload import Payload

Array = npt.NDArray[np.generic]

_SUB_BYTE_BITS: dict[int, int] = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
    TensorProto.FLOAT6E2M3: 6,
    TensorProto.FLOAT6E3M2: 6,
}


def iter_tensors(proto: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor that a model stores.

    These are initializers (dense and sparse) and tensors in attributes. Scopes, training graphs and default values of
    function attributes are searched. ONNX Runtime would read exactly these tensors from external data.
    """
    for _, container in walk(proto):
        yield from _stored_in(container)
    for training in proto.training_info:
        for graph in (training.initialization, training.algorithm):
            yield from _stored_in(graph)


def _stored_in(container: onnx.GraphProto | onnx.FunctionProto) -> Iterator[TensorProto]:
    if isinstance(container, onnx.GraphProto):
        yield from container.initializer
        for sparse in container.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    else:
        for attribute in container.attribute_proto:
            yield from _in_attribute(attribute)
            # walk() does not enter the subgraphs of a default value.
            for graph in _graphs(attribute):
                yield from _stored_below(graph)
    for node in container.node:
        for attribute in node.attribute:
            yield from _in_attribute(attribute)


def _in_attribute(attribute: onnx.AttributeProto) -> Iterator[TensorProto]:
    # Checked by content, not by declared type: an attribute that refers to a function parameter has only a type.
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    if attribute.HasField("sparse_tensor"):
        yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)
    for sparse in attribute.sparse_tensors:
        yield from (sparse.values, sparse.indices)


def _graphs(attribute: onnx.AttributeProto) -> Iterator[onnx.GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _stored_below(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    yield from _stored_in(graph)
    for node in graph.node:
        for attribute in node.attribute:
            for body in _graphs(attribute):
                yield from _stored_below(body)


def is_external(tensor: TensorProto) -> bool:
    """Return whether the bytes are stored outside the model file, or are pending."""
    return tensor.data_location == TensorProto.EXTERNAL


def external_entry(tensor: TensorProto, key: str) -> str:
    """Return an entry of ``external_data`` (``location``, ``offset``, ``length``, ``key``); empty if absent."""
    return next((entry.value for entry in tensor.external_data if entry.key == key), "")


def is_pending(tensor: TensorProto) -> bool:
    """Return whether the bytes are computed only when the model is saved."""
    return is_external(tensor) and external_entry(tensor, "location") == PENDING_LOCATION


def element_count(tensor: TensorProto) -> int:
    """Return the number of elements, the product of the dims; 1 for a scalar."""
    return math.prod(tensor.dims)


def nbytes(tensor: TensorProto) -> int:
    """Return the size in bytes of the raw data of ``tensor``; elements below 8 bits are packed, strings count as 0."""
    bits = _SUB_BYTE_BITS.get(tensor.data_type)
    if bits is not None:
        return (element_count(tensor) * bits + 7) // 8
    if tensor.data_type == TensorProto.STRING:
        return 0
    return int(element_count(tensor) * _numpy_dtype(tensor).itemsize)


_PLAIN: Mapping[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.INT8: np.dtype("i1"),
    TensorProto.UINT8: np.dtype("u1"),
    TensorProto.INT32: np.dtype("<i4"),
}
"""Types whose raw data has the layout of the array."""


def read_array(model: Model, tensor: TensorProto) -> Array:
    """Read the values of a stored tensor, unpacked, in its NumPy or ml_dtypes type and shape.

    External and offloaded data of whole bytes is memory-mapped read-only; it is read from disk when used.

    Raises:
        ModelError: The stored bytes do not fit the declared shape and type.
    """
    try:
        if not is_external(tensor):
            return _of_raw_data(tensor) if tensor.data_type in _PLAIN else np.asarray(numpy_helper.to_array(tensor))
        place = _place(model, tensor)
        if place is None or tensor.data_type in _SUB_BYTE_BITS:
            raw = read_bytes(model, tensor)
            inline = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=raw)
            return np.asarray(numpy_helper.to_array(inline))
        return _mapped(tensor, *place)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(f"initializer '{tensor.name}' cannot be read: {error}") from error


def _of_raw_data(tensor: TensorProto) -> Array:
    """Read a constant of a plain type without onnx, which is ten times slower. Models have many small scales."""
    raw = tensor.raw_data
    if not raw:
        return np.asarray(numpy_helper.to_array(tensor))
    return np.frombuffer(raw, _PLAIN[tensor.data_type]).reshape(tuple(tensor.dims))


def read_bytes(model: Model, tensor: TensorProto) -> bytes:
    """Read the raw data of a stored tensor, packed and little-endian."""
    if is_pending(tensor):
        return payload_of(model, tensor).make()
    if is_external(tensor):
        path, offset = external_place(model.folder, tensor)
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(nbytes(tensor))
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    return make_tensor(tensor.name, read_array(model, tensor), tensor.data_type).raw_data


def external_place(folder: Path, tensor: TensorProto) -> tuple[Path, int]:
    """Return the file and byte offset of an external tensor of a model in ``folder``."""
    return folder / external_entry(tensor, "location"), int(external_entry(tensor, "offset") or 0)


def onnx_type_name(onnx_type: int | None) -> str:
    """Return the ONNX name of an element type in lower case, or ``unknown``, or ``type 99`` for an unknown number."""
    known = TensorProto.DataType.DESCRIPTOR.values_by_number.get(onnx_type) if onnx_type else None
    return known.name.lower() if known is not None else f"type {onnx_type}" if onnx_type else "unknown"


def make_tensor(name: str, array: npt.ArrayLike, onnx_type: int) -> TensorProto:
    """Make a TensorProto with raw data.

    Args:
        name: Name of the tensor.
        array: Values; they are converted to the NumPy type of ``onnx_type``. Sub-byte types are packed, with the first
            element in the low bits.
        onnx_type: ``TensorProto.DataType``.
    """
    values = np.asarray(array).astype(onnx.helper.tensor_dtype_to_np_dtype(onnx_type))
    return numpy_helper.from_array(values, name)


def pending_tensor(model: Model, name: str, dims: tuple[int, ...], onnx_type: int, payload: Payload) -> TensorProto:
    """Return a tensor whose bytes are computed when the model is saved; ``payload`` is registered under its name."""
    tensor = TensorProto(name=name, data_type=onnx_type, dims=dims)
    set_pending(model, tensor, name, payload)
    return tensor


def computed_tensor(
    model: Model, stored: TensorProto, name: str, compute: Callable[[Array], Array], dims: Sequence[int] | None = None
) -> TensorProto:
    """Return a pending tensor that is computed from a stored tensor of the same type when the model is saved."""

    def make() -> bytes:
        return make_tensor(name, compute(read_array(model, stored)), stored.data_type).raw_data

    tensor = TensorProto(name=name, data_type=stored.data_type, dims=stored.dims if dims is None else dims)
    set_pending(model, tensor, name, Payload(nbytes(tensor), make))
    return tensor


def set_pending(model: Model, tensor: TensorProto, key: str, payload: Payload) -> None:
    """Make a tensor without data pending: ``payload``, registered as ``key``, computes its bytes on saving."""
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    tensor.external_data.add(key="location", value=PENDING_LOCATION)
    tensor.external_data.add(key="key", value=key)
    model.payloads[key] = payload


def _numpy_dtype(tensor: TensorProto) -> np.dtype[np.generic]:
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type))
    except KeyError:
        raise ModelError(
            f"tensor '{tensor.name}' has data type {tensor.data_type}, which ONNX does not define"
        ) from None


def payload_of(model: Model, tensor: TensorProto) -> Payload:
    """Return the payload of a pending tensor."""
    return model.payloads[external_entry(tensor, "key")]


def _place(model: Model, tensor: TensorProto) -> tuple[Path, int] | None:
    """Return the file and offset of an external or offloaded tensor, or None if its bytes must be computed."""
    if not is_pending(tensor):
        return external_place(model.folder, tensor)
    place = payload_of(model, tensor).place
    return (place.file, place.offset) if place is not None else None


def _mapped(tensor: TensorProto, path: Path, offset: int) -> Array:
    shape = tuple(tensor.dims)
    dtype = _numpy_dtype(tensor)
    # mmap raises an error for an empty mapping.
    if not element_count(tensor):
        return np.zeros(shape, dtype)
    raw = np.memmap(path, np.uint8, "r", offset, (nbytes(tensor),))
    return np.asarray(raw).view(dtype).reshape(shape)
