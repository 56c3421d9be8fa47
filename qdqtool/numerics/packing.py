"""Pack codes of less than 8 bits to the bytes that ONNX stores, and unpack them; large tensors in parts.

ONNX (``onnx.proto``, TensorProto.raw_data) stores elements in row-major order without gaps, the first element in the
low bits of the first byte. The bits after the last element are zero. A byte holds two elements of 4 bits or four of 2
bits; 3 bytes hold four elements of 6 bits.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels
from qdqtool.numerics.affine import dequantize, quantize
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, normalize_axis
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantParams

Bytes = npt.NDArray[np.uint8]


def pack(codes: Array, fmt: NumberFormat) -> Bytes:
    """Pack ``codes`` to stored bytes.

    Args:
        codes: Codes of any shape in ``fmt.dtype``.
        fmt: Format of the codes.

    Returns:
        A flat array of ``fmt.stored_bytes(codes.size)`` bytes, little-endian.

    Raises:
        ArgumentError: ``codes`` have another type.
    """
    if codes.dtype != fmt.dtype:
        raise ArgumentError(f"codes have type {codes.dtype}; {fmt} needs type {fmt.dtype}")
    flat = np.ascontiguousarray(codes).reshape(-1)
    if fmt.bits >= 8:
        return flat.astype(flat.dtype.newbyteorder("<"), copy=False).view(np.uint8)
    if fmt.bits == 4 and kernels.worth_packing(flat):
        return kernels.pack_nibbles(flat)
    if fmt.bits == 4 and flat.size % 2 == 0:
        pairs = flat.view(np.uint8)
        return (pairs[::2] & np.uint8(15)) | (pairs[1::2] << np.uint8(4))
    elements, width = _group(fmt.bits)
    padded = np.zeros(-(-flat.size // elements) * elements, np.uint8)
    padded[: flat.size] = flat.view(np.uint8) & (2**fmt.bits - 1)
    columns = padded.reshape(-1, elements)
    word: type[np.unsignedinteger[Any]] = np.uint8 if width == 1 else np.uint32
    words = np.zeros((len(columns), 1), word)
    for position in range(elements):
        np.bitwise_or(words, columns[:, [position]].astype(word) << word(position * fmt.bits), out=words)
    packed = words.view(np.uint8)[:, :width]
    return np.ascontiguousarray(packed).reshape(-1)[: fmt.stored_bytes(flat.size)]


def unpack(stored: Bytes, fmt: NumberFormat, shape: tuple[int, ...]) -> Array:
    """Unpack the bytes that :func:`pack` made.

    Args:
        stored: Flat bytes.
        fmt: Format of the codes.
        shape: Shape of the codes.

    Returns:
        Codes in ``shape`` and ``fmt.dtype``.

    Raises:
        ArgumentError: There are too many or too few bytes for ``shape``.
    """
    size = math.prod(shape)
    if stored.size != fmt.stored_bytes(size):
        expected = fmt.stored_bytes(size)
        raise ArgumentError(f"{stored.size} bytes are stored; {size} elements of {fmt} take {expected}")
    if fmt.bits >= 8:
        return stored.view(fmt.dtype.newbyteorder("<")).astype(fmt.dtype, copy=False).reshape(shape)
    elements, width = _group(fmt.bits)
    padded = np.zeros((-(-size // elements), 1 if width == 1 else 4), np.uint8)
    tail = np.zeros(len(padded) * width, np.uint8)
    tail[: stored.size] = stored
    padded[:, :width] = tail.reshape(-1, width)
    words = padded.view(np.uint8 if width == 1 else np.uint32).reshape(-1, 1)
    shifts = np.arange(elements, dtype=words.dtype) * words.dtype.type(fmt.bits)
    columns = (words >> shifts) & words.dtype.type(2**fmt.bits - 1)
    return _codes(columns.astype(np.uint8, copy=False).reshape(-1)[:size], fmt).reshape(shape)


def _codes(bits: Bytes, fmt: NumberFormat) -> Array:
    """Return the codes for bits. Signed integers are sign-extended, so that the conversion to ml_dtypes is exact."""
    if fmt.kind == "integer" and fmt.low < 0:
        spare = 8 - fmt.bits
        return ((bits << spare).view(np.int8) >> spare).astype(fmt.dtype)
    return bits.view(fmt.dtype)


def _group(bits: int) -> tuple[int, int]:
    """Return the smallest number of elements that fill whole bytes, and the number of these bytes."""
    common = math.lcm(bits, 8)
    return common // bits, common // 8


PART = 1 << 20
"""Number of elements of a part. The work on it takes a hundred times as long as its start; few parts are in memory."""
WHOLE_BYTES = 8
"""In every format, a multiple of this number of codes fills whole bytes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of rows of a tensor (indices of its first axis), and the rows of the scales that belong to them.

    Attributes:
        values: The rows of the tensor.
        scales: The rows of the scales; None if all rows of the tensor have the same scales.
    """

    values: slice
    scales: slice | None

    def of_scales(self, parameter: Array) -> Array:
        """Return the scales (or zero points) of the rows."""
        return parameter if self.scales is None or parameter.size == 1 else parameter[self.scales]


def in_rows(shape: tuple[int, ...], granularity: Granularity, elements: int = PART) -> Iterator[Rows]:
    """Divide a tensor along its first axis into parts of whole blocks; all but the last fill whole bytes with codes.

    Args:
        shape: Shape of the tensor.
        granularity: Which elements share a scale.
        elements: Number of elements of a part, rounded to whole blocks.
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
    """Yield functions that return consecutive parts of the codes of ``x``, packed as ONNX stores them.

    The bytes are the same as from :func:`~qdqtool.numerics.affine.quantize` and :func:`pack` on the whole array.

    Args:
        x: As for :func:`~qdqtool.numerics.affine.quantize`.
        params: Scheme, scales and zero points.
    """
    kernels.prepare(x)
    scheme = params.scheme

    def of_rows(rows: Rows) -> bytes:
        zero_point = None if params.zero_point is None else rows.of_scales(params.zero_point)
        values = np.ascontiguousarray(x[rows.values]) if x.shape else x
        codes = quantize(values, rows.of_scales(params.scale), scheme.format, scheme.granularity, zero_point)
        return pack(codes, scheme.format).tobytes()

    for rows in in_rows(x.shape, scheme.granularity):
        yield partial(of_rows, rows)


def stored_values(
    q: Array, scale: Array, granularity: Granularity, zero_point: Array | None = None, *, output_dtype: npt.DTypeLike
) -> Iterator[Callable[[], bytes]]:
    """Yield functions that return consecutive parts of the dequantized values of ``q``, as ONNX stores them.

    The bytes are the same as from :func:`~qdqtool.numerics.affine.dequantize` on the whole array.
    """

    def of_rows(rows: Rows) -> bytes:
        zero = None if zero_point is None else rows.of_scales(zero_point)
        codes = q[rows.values] if q.shape else q
        found = dequantize(codes, rows.of_scales(scale), granularity, zero, output_dtype=output_dtype)
        return found.astype(found.dtype.newbyteorder("<"), copy=False).tobytes()

    for rows in in_rows(q.shape, granularity):
        yield partial(of_rows, rows)
