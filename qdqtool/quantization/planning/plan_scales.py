"""Round the scales of a plan entry to the stored type: the type of the data, or a number format for scales."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, Array
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.plan_file import PlanEntry, read_numbers


@dataclass(frozen=True, slots=True, eq=False)
class StoredScale:
    """Scales after rounding to the stored type.

    Attributes:
        scale: Real values in the shape of the plan, in float8e8m0 if they are stored in it, else in the data's type.
        scheme: The number format of the scales; None for the type of the data.
        params: The parameters with which the scales are quantized; None if they are not quantized.
    """

    scale: Array
    scheme: QuantScheme | None = None
    params: QuantParams | None = None


def stored_scale(entry: PlanEntry, given: Array, elem_type: int | None, folder: Path) -> StoredScale:
    """Return the scales of a plan entry, rounded to the stored type, so that Q and DQ use the same values.

    Args:
        entry: The plan entry.
        given: The ``scale`` of the entry, as in the plan.
        elem_type: ``TensorProto.DataType`` of the tensor that is quantized.
        folder: The folder to which array references of the plan are relative.

    Raises:
        ArgumentError: A scale cannot be stored in the type, or ``scale_format`` and ``scale_scale`` do not match.
    """
    assert elem_type is not None
    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type))
    if entry.scale_format is None:
        if entry.scale_scale is not None:
            raise ArgumentError("scale_scale needs scale_format, the format that it scales")
        return StoredScale(_rounded(given, dtype, f"{dtype.name}, the type of the tensor"))
    fmt = _scale_format(entry.scale_format)
    scheme = QuantScheme(fmt, PerTensor())
    if fmt.first_opset.scale is not None:
        if entry.scale_scale is not None:
            raise ArgumentError(f"scale_scale is set, but {fmt} stores scales as they are; leave it out")
        return StoredScale(_rounded(given, fmt.dtype, fmt.name), scheme)
    params = QuantParams(scheme, _scale_of_scales(entry, fmt, folder))
    return StoredScale(_quantized(given, params, dtype), scheme, params)


def _scale_format(name: str) -> NumberFormat:
    fmt = formats.get(name)
    if fmt.first_opset.scale is None and fmt.first_opset.quantize is None:
        raise ArgumentError(f"scale_format is {fmt}, which cannot store scales; usual: float8e4m3fn, float8e8m0")
    return fmt


def _scale_of_scales(entry: PlanEntry, fmt: NumberFormat, folder: Path) -> Array:
    if entry.scale_scale is None:
        raise ArgumentError(f"scale_format is {fmt} and scale_scale is absent; give the scale of the scales")
    given = read_numbers(entry.scale_scale, folder, "scale_scale")
    if given.size != 1:
        raise ArgumentError(f"scale_scale has {given.size} elements; it must be one number")
    return _rounded(given.reshape(()), FLOAT32, "float32")


def _quantized(given: Array, params: QuantParams, dtype: np.dtype[np.generic]) -> Array:
    """Return the scales, quantized and dequantized to the type of the data."""
    fmt, step = params.scheme.format, params.scale
    codes = quantize(_rounded(given, FLOAT32, "float32"), step, fmt, PerTensor())
    scale = dequantize(codes, step, PerTensor(), output_dtype=dtype)
    beyond = given.astype(FLOAT64) > fmt.high * float(step)
    if beyond.any():
        raise ArgumentError(
            f"scale {given[beyond].flat[0]:g} is above {fmt.high * float(step):g}, the largest that {fmt} holds with "
            f"scale_scale {float(step):g}"
        )
    _check_not_zero(given, scale, f"{fmt} with scale_scale {float(step):g}")
    # The dequantized scale is rounded to the type of the data. If rounding moves it to another code, the codes in the
    # model would not match the scales.
    lost = quantize(scale.astype(FLOAT32), step, fmt, PerTensor()) != codes
    if lost.any():
        raise ArgumentError(f"scale {given[lost].flat[0]:g} is too coarse in {dtype.name}, the type of the tensor")
    return scale


def _rounded(given: Array, dtype: np.dtype[np.generic], where: str) -> Array:
    with np.errstate(all="ignore"):
        stored = given.astype(FLOAT32).astype(dtype)
    _check_not_zero(given, stored, where)
    return stored


def _check_not_zero(given: Array, stored: Array, where: str) -> None:
    vanished = (given.astype(FLOAT64) > 0) & (stored.astype(FLOAT32) == 0)
    if vanished.any():
        raise ArgumentError(f"scale {given[vanished].flat[0]:g} is 0 when stored as {where}")
