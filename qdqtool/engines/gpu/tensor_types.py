"""The NumPy types of the inputs and outputs of engines, by the names that TensorRT and ONNX Runtime give them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from qdqtool.errors import CapabilityError, UsageError
from qdqtool.numerics.dtypes import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Array
from qdqtool.samples.input_shapes import spell_shape
from qdqtool.samples.signature import InputSpec

Type = np.dtype[np.generic]

# Types of 4 bits are left out, since two elements share a byte. Scales of MXFP8 (E8M0) are left out, since TensorRT
# does not give their size. No model that ONNX Runtime can run has such an input.
_TENSORRT: Mapping[str, Type] = {
    "FLOAT": FLOAT32,
    "HALF": FLOAT16,
    "BF16": BFLOAT16,
    "INT8": np.dtype(np.int8),
    "INT32": np.dtype(np.int32),
    "INT64": np.dtype(np.int64),
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype(np.uint8),
    "FP8": np.dtype(ml_dtypes.float8_e4m3fn),
}

_ONNX: Mapping[str, Type] = {
    "tensor(float)": FLOAT32,
    "tensor(float16)": FLOAT16,
    "tensor(double)": FLOAT64,
    "tensor(bool)": np.dtype(np.bool_),
    **{f"tensor({name})": np.dtype(name) for name in ("int8", "int16", "int32", "int64")},
    **{f"tensor(u{name})": np.dtype(f"u{name}") for name in ("int8", "int16", "int32", "int64")},
}


def of_tensorrt(name: str, tensor: str) -> Type:
    """Return the NumPy type of a member of TensorRT's ``DataType``.

    Args:
        name: The member, such as ``HALF``.
        tensor: The input or output, for the message.
    """
    return _found(_TENSORRT, name, tensor)


def of_onnx(name: str, tensor: str) -> Type:
    """Return the NumPy type of a type of ONNX Runtime, such as ``tensor(float16)``; see :func:`of_tensorrt`."""
    return _found(_ONNX, name, tensor)


def fed_as(dtype: Type) -> Type:
    """Return the type in which samples for inputs of ``dtype`` are given: float32 for bfloat16, else the same type."""
    return FLOAT32 if dtype == BFLOAT16 else dtype


def _found(types: Mapping[str, Type], name: str, tensor: str) -> Type:
    if name not in types:
        raise CapabilityError(f"'{tensor}' has type {name}, which NumPy does not support")
    return types[name]


_PROFILE = 0
"""The optimization profile in use: the first one, which a new execution context selects."""


@dataclass(frozen=True, slots=True)
class ShapeRange:
    """The shapes that an engine accepts for one input: smallest, optimal and largest."""

    min: tuple[int, ...]
    opt: tuple[int, ...]
    max: tuple[int, ...]

    def __contains__(self, shape: tuple[int, ...]) -> bool:
        bounds = zip(self.min, shape, self.max, strict=False)
        return len(shape) == len(self.min) and all(low <= extent <= high for low, extent, high in bounds)

    def __str__(self) -> str:
        low, high = spell_shape(self.min), spell_shape(self.max)
        return low if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineTensor:
    """One input or output of an engine.

    Attributes:
        name: Its name, as in the model.
        dtype: Its type.
        shape: Its extents; None for a dynamic extent.
        is_input: Whether it is an input.
        on_host: Whether TensorRT reads or writes it in host memory, such as values that decide shapes.
        decides_shapes: Whether the values of this input decide shapes.
        range: The shapes that the engine accepts; None for an output.
    """

    name: str
    dtype: Type
    shape: tuple[int | None, ...]
    is_input: bool
    on_host: bool
    decides_shapes: bool
    range: ShapeRange | None

    @property
    def spec(self) -> InputSpec:
        """The specification against which samples are checked."""
        return InputSpec(self.name, fed_as(self.dtype), self.shape)

    def require(self, array: Array) -> None:
        """Check that the engine accepts an array for this input.

        Raises:
            UsageError: The array has another type, or a shape that the engine was not built for.
        """
        shape, dtype = array.shape, self.spec.dtype
        if array.dtype != dtype:
            raise UsageError(
                f"input '{self.name}' has type {array.dtype}; the engine takes {dtype}",
                hint="run the engine on data for the model that it was built from",
            )
        if self.range is not None and shape not in self.range:
            raise UsageError(
                f"input '{self.name}' has shape {spell_shape(shape)}; the engine was built for {self.range}",
                hint=f"build it for your shapes: `qdqtool build MODEL -o ENGINE --opt-shapes "
                f"{self.name}:{spell_shape(shape)}`",
            )


def read_tensors(trt: Any, engine: Any) -> tuple[EngineTensor, ...]:
    """Return the inputs and outputs of an engine, in the order of the engine."""
    return tuple(_read(trt, engine, engine.get_tensor_name(index)) for index in range(engine.num_io_tensors))


def _read(trt: Any, engine: Any, name: str) -> EngineTensor:
    layout = engine.get_tensor_format(name)
    if layout != trt.TensorFormat.LINEAR:
        raise CapabilityError(
            f"'{name}' has the layout {layout.name} in this engine; only LINEAR, row by row, can be run",
            hint="build the engine without formats of inputs and outputs (trtexec: without --inputIOFormats and "
            "--outputIOFormats)",
        )
    shape = tuple(None if extent < 0 else int(extent) for extent in engine.get_tensor_shape(name))
    is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
    return EngineTensor(
        name=name,
        dtype=of_tensorrt(engine.get_tensor_dtype(name).name, name),
        shape=shape,
        is_input=is_input,
        on_host=engine.get_tensor_location(name) == trt.TensorLocation.HOST,
        decides_shapes=is_input and bool(engine.is_shape_inference_io(name)),
        range=_range(engine, name, shape) if is_input else None,
    )


def _range(engine: Any, name: str, shape: tuple[int | None, ...]) -> ShapeRange:
    fixed = tuple(extent for extent in shape if extent is not None)
    if len(fixed) == len(shape):
        return ShapeRange(fixed, fixed, fixed)
    low, best, high = (tuple(map(int, dims)) for dims in engine.get_tensor_profile_shape(name, _PROFILE))
    return ShapeRange(low, best, high)
