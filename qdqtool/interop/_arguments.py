"""Arguments that the systems share: real inputs, codes of few types, scales of the real side's type."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qdqtool.errors import ArgumentError
from qdqtool.interop._array_arguments import real_array
from qdqtool.numerics import formats
from qdqtool.numerics.division import round_once
from qdqtool.numerics.dtypes import FLOAT32, FLOAT64, REAL_TYPES, Array
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import check_scale_values


def real_side(x: ArrayLike, argument: str) -> Array:
    """``x`` as float32, float16 or bfloat16; other real types are rounded to float32."""
    values = real_array(x, argument)
    return values if values.dtype in REAL_TYPES else values.astype(FLOAT32)


def scale_like(scale: ArrayLike, dtype: np.dtype[Any]) -> Array:
    """A positive scale of type ``dtype``: numbers, lists and float64 are rounded to it, other arrays must have it.

    Raises:
        ArgumentError: It has another type, or is not finite and positive.
    """
    array = np.asarray(scale)
    if array.dtype.kind in "biu" or array.dtype == FLOAT64:
        array = round_once(array.astype(FLOAT64), dtype)
    if array.dtype != dtype:
        raise ArgumentError(f"scale has type {array.dtype}; it must be that of the real side, {dtype}")
    check_scale_values(array)
    return array


def codes_of(q: ArrayLike, argument: str, legal: Iterable[str]) -> tuple[Array, NumberFormat]:
    """``q`` as an array of one of the ``legal`` formats, with its format.

    Raises:
        ArgumentError: It has another type.
    """
    codes = np.asarray(q)
    fmt = formats.by_dtype(codes.dtype)
    names = tuple(legal)
    if fmt is None or fmt.name not in names:
        raise ArgumentError(f"{argument} has type {codes.dtype}; legal: {', '.join(names)}")
    return codes, fmt
