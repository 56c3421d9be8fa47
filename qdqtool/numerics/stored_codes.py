"""Make the stored codes of a large constant, or its values again, in parts that fit the caches, on all cores."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from qdqtool.numerics import kernels
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, normalize_axis
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantParams

PART = 1 << 20
"""Elements of a part: it takes a hundred times as long as starting it, and few of them are in memory."""
WHOLE_BYTES = 8
"""A multiple of so many codes fills whole bytes in every format."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a tensor along its first axis, and the indices of their scales on the first axis of the scales.

    Attributes:
        values: The rows.
        scales: Rows of the scales; None where all rows have the same ones.
    """

    values: slice
    scales: slice | None

    def of_scales(self, parameter: Array) -> Array:
        """Return the scales (or zero points) of the rows; a single one is that of all of them."""
        return parameter if self.scales is None or parameter.size == 1 else parameter[self.scales]


def in_rows(shape: tuple[int, ...], granularity: Granularity, elements: int = PART) -> Iterator[Rows]:
    """Divide a tensor along its first axis into parts of whole blocks, and of whole bytes of codes but for the last.

    Args:
        shape: Shape of the tensor.
        granularity: Over which elements a scale is shared.
        elements: Elements of a part, as far as blocks allow.
    """
    if not shape:
        yield Rows(slice(None), None)
        return
    axis = None if not isinstance(granularity, PerAxis | Blocked) else normalize_axis(granularity.axis, len(shape))
    block = granularity.block_size if isinstance(granularity, Blocked) and axis == 0 else 1
    follows = axis == 0 or isinstance(granularity, Blocked)
    unit = math.lcm(block, WHOLE_BYTES)
    step = max(elements // max(math.prod(shape[1:]), 1) // unit, 1) * unit
    for first in range(0, shape[0], step):
        last = min(first + step, shape[0])
        yield Rows(slice(first, last), slice(first // block, -(-last // block)) if follows else None)


def stored_codes(x: Array, params: QuantParams) -> Iterator[Callable[[], bytes]]:
    """Yield makers of consecutive parts of the codes of ``x``, packed as ONNX stores them.

    The bytes are those of :func:`~qdqtool.numerics.affine.quantize` and :func:`~qdqtool.numerics.packing.pack` on the
    whole array.

    Args:
        x: As for :func:`~qdqtool.numerics.affine.quantize`.
        params: Scheme, scales and zero points.
    """
    kernels.prepare(x)
    for rows in in_rows(x.shape, params.scheme.granularity):
        yield partial(_codes_of_rows, x, params, rows)


def stored_values(
    q: Array,
    scale: Array,
    granularity: Granularity,
    zero_point: Array | None = None,
    *,
    output_dtype: npt.DTypeLike,
) -> Iterator[Callable[[], bytes]]:
    """Yield makers of consecutive parts of the dequantized values of ``q``, as ONNX stores them.

    The bytes are those of :func:`~qdqtool.numerics.affine.dequantize` on the whole array; arguments as there.
    """
    for rows in in_rows(q.shape, granularity):
        yield partial(_values_of_rows, q, (scale, zero_point), granularity, (rows, output_dtype))


def _values_of_rows(
    q: Array, params: tuple[Array, Array | None], granularity: Granularity, wanted: tuple[Rows, npt.DTypeLike]
) -> bytes:
    (scale, zero_point), (rows, dtype) = params, wanted
    zero = None if zero_point is None else rows.of_scales(zero_point)
    codes = q[rows.values] if q.shape else q
    found = dequantize(codes, rows.of_scales(scale), granularity, zero, output_dtype=dtype)
    return found.astype(found.dtype.newbyteorder("<"), copy=False).tobytes()


def _codes_of_rows(x: Array, params: QuantParams, rows: Rows) -> bytes:
    scheme = params.scheme
    zero_point = None if params.zero_point is None else rows.of_scales(params.zero_point)
    values = np.ascontiguousarray(x[rows.values]) if x.shape else x
    codes = quantize(values, rows.of_scales(params.scale), scheme.format, scheme.granularity, zero_point)
    return pack(codes, scheme.format).tobytes()
