"""The number formats, one per module: the file name is the public id, ``FORMAT`` is the format."""

import functools

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.numerics import formats as _package
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.registry import load_unit, suggestion, unit_names

ALIASES = {"fp8": "float8e4m3fn", "mxfp8": "float8e4m3fn", "fp4": "float4e2m1", "nvfp4": "float4e2m1"}
"""Names of formats in quantize modes and other tools, with the public id."""


@functools.cache
def names() -> tuple[str, ...]:
    """Return the public ids of all formats, sorted."""
    return unit_names(_package)


@functools.cache
def get(name: str) -> NumberFormat:
    """Return the format with a public id, an alias (``ALIASES``) or an ONNX name in capitals (``FLOAT8E4M3FN``).

    Raises:
        ArgumentError: No format has that name; the message lists the legal names.
    """
    name = ALIASES.get(name.lower(), name.lower())
    if name not in names():
        raise ArgumentError(f"format '{name}' is unknown; legal: {', '.join(names())}{suggestion(name, names())}")
    found = load_unit(_package, name).FORMAT
    assert isinstance(found, NumberFormat)
    return found


def by_onnx_type(onnx_type: int) -> NumberFormat | None:
    """Return the format of a ``TensorProto.DataType`` value, or None if it is no quantized format."""
    return next((fmt for fmt in map(get, names()) if fmt.onnx_type == onnx_type), None)


def by_dtype(dtype: np.dtype[np.generic]) -> NumberFormat | None:
    """Return the format of a NumPy or ml_dtypes type, or None if it is no quantized format."""
    return next((fmt for fmt in map(get, names()) if fmt.dtype == dtype), None)
