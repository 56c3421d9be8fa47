"""Pack codes of less than 8 bits to the bytes that ONNX stores, and unpack them.

ONNX (``onnx.proto``, TensorProto.raw_data): elements in row-major order, the first in the low bits of the first byte,
without gaps; the bits after the last element are zero. 4 and 2 bits fill a byte with 2 and 4 elements; 6 bits fill 3
bytes with 4.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from qdqtool.errors import ArgumentError
from qdqtool.numerics import kernels
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.number_format import NumberFormat

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
