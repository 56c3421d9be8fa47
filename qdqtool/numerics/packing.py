"""Pack codes of less than 8 bits to the bytes that ONNX stores, and unpack them; large ones in parts.

ONNX (``onnx.proto``, TensorProto.raw_data): elements in row-major order, the first in the low bits of the first byte,
without gaps; the bits after the last element are zero. 4 and 2 bits fill a byte with 2 and 4 elements; 6 bits fill 3
bytes with 4.
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
        fmt: Their format.

    Returns:
        A flat array of ``fmt.stored_bytes(codes.size)`` bytes, little-endian.

    Raises:
        ArgumentError: ``codes`` have another type.
    """
    if codes.dtype != fmt.dtype:
        raise ArgumentError(f"codes have type {codes.dtype}; {fmt} is stored from {fmt.dtype}")
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
        shape: Their shape.

    Returns:
        Codes of that shape in ``fmt.dtype``.

    Raises:
        ArgumentError: There are too many or too few bytes for that shape.
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
    """Make codes from bits; signed integers are sign-extended first, so that the conversion to ml_dtypes is exact."""
    if fmt.kind == "integer" and fmt.low < 0:
        spare = 8 - fmt.bits
        return ((bits << spare).view(np.int8) >> spare).astype(fmt.dtype)
    return bits.view(fmt.dtype)


def _group(bits: int) -> tuple[int, int]:
    """Return how many elements fill how many bytes without a remainder."""
    common = math.lcm(bits, 8)
    return common // bits, common // 8


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
    scheme = params.scheme

    def of_rows(rows: Rows) -> bytes:
        zero_point = None if params.zero_point is None else rows.of_scales(params.zero_point)
        values = np.ascontiguousarray(x[rows.values]) if x.shape else x
        codes = quantize(values, rows.of_scales(params.scale), scheme.format, scheme.granularity, zero_point)
        return pack(codes, scheme.format).tobytes()

    for rows in in_rows(x.shape, scheme.granularity):
        yield partial(of_rows, rows)


def stored_values(
    q: Array,
    scale: Array,
    granularity: Granularity,
    zero_point: Array | None = None,
    *,
    output_dtype: npt.DTypeLike,
) -> Iterator[Callable[[], bytes]]:
    """Yield makers of consecutive parts of the dequantized values of ``q``, as ONNX stores them.

    The bytes are the same as from :func:`~qdqtool.numerics.affine.dequantize` on the whole array.
    """

    def of_rows(rows: Rows) -> bytes:
        zero = None if zero_point is None else rows.of_scales(zero_point)
        codes = q[rows.values] if q.shape else q
        found = dequantize(codes, rows.of_scales(scale), granularity, zero, output_dtype=output_dtype)
        return found.astype(found.dtype.newbyteorder("<"), copy=False).tobytes()

    for rows in in_rows(q.shape, granularity):
        yield partial(of_rows, rows)
