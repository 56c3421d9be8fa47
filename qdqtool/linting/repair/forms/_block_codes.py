"""Rewrite weights in packed blocks, which operators of com.microsoft read, as stored codes with a DQ of ONNX."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from qdqtool.linting.rules import Draft, RuleContext, UnfitError, as_reals
from qdqtool.linting.rules.support.extents import FIRST_OPSET_WITH_BLOCKS
from qdqtool.linting.rules.support.words import FLOAT_TYPES
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.number_format import NumberFormat

BITS_OF_PACKED = (2, 4, 8)
MAX_ZERO_POINT = 255

Integers = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class BlockCodes:
    """A tensor of integer codes with scales for blocks along one axis.

    Attributes:
        tensor: The constant that holds the codes.
        read: Returns the unpacked codes, in the layout of the operator.
        shape: Shape of the array that ``read`` returns.
        limits: The lowest and highest code.
        scale: Scales, with one element for each block on ``axis``.
        zero_point: Zero points in the shape of the scales.
        axis: The axis of the blocks.
        block_size: Elements of a block; the last block may be shorter.
    """

    tensor: onnx.TensorProto
    read: Callable[[], Integers]
    shape: tuple[int, ...]
    limits: tuple[int, int]
    scale: Array
    zero_point: Integers
    axis: int
    block_size: int

    @property
    def format(self) -> NumberFormat:
        """The smallest signed format that holds every code minus its zero point; uint8 if there is none.

        TensorRT accepts only the zero point 0, and no uint4. 4-bit codes minus their zero points fit int8, so int8
        codes with the same blocks and scales represent the same values.
        """
        low, high = self.limits[0] - int(self.zero_point.max()), self.limits[1] - int(self.zero_point.min())
        for name in ("int4", "int8"):
            fmt = formats.get(name)
            if fmt.low <= low and high <= fmt.high:
                return fmt
        return formats.get("uint8")

    @property
    def keeps_zero_point(self) -> bool:
        """Whether the codes are stored unchanged, with their zero points."""
        return self.format.low == 0

    @property
    def stored_block(self) -> int:
        """The block size to write, which divides the extent of the axis if possible; 0 for one block."""
        extent = self.shape[self.axis]
        if self.scale.shape[self.axis] == 1 and len(self.shape) == 2:
            return 0
        whole = math.gcd(self.block_size, extent)
        # TensorRT refuses blocks of one element and a shorter last block. ONNX accepts a shorter last block.
        return whole if whole > 1 else self.block_size

    @property
    def words(self) -> str:
        """The type and the blocks, as text for descriptions."""
        size = self.stored_block
        return f"{self.format} codes " + (f"in blocks of {size}" if size else "with a scale for each channel")


def described(codes: Callable[[], BlockCodes]) -> str:
    """Describe a DQ in words, with its type and blocks if the codes can be read."""
    try:
        return f"a DQ of {codes().words}"
    except UnfitError:
        return "a DQ"


def write_dequantize(draft: Draft, node: NodeView, codes: BlockCodes) -> str:
    """Store codes, add their DQ before ``node``, and return the name of its output.

    Raises:
        UnfitError: No type can hold the codes.
    """
    scope, name, fmt = node.scope, codes.tensor.name, codes.format
    if codes.keeps_zero_point and codes.zero_point.min() < 0:
        raise UnfitError("its codes minus its zero points fit no 8-bit type")
    like = TensorProto(data_type=fmt.onnx_type, dims=codes.shape)
    inputs = [draft.weights(scope, f"{name}_codes", like, lambda: _stored(codes))]
    inputs.append(draft.constant(scope, f"{name}_scale", _spread(codes, codes.scale)))
    if codes.keeps_zero_point:
        zero = _spread(codes, codes.zero_point).astype(fmt.dtype)
        inputs.append(draft.constant(scope, f"{name}_zero_point", zero))
    size = codes.stored_block
    needed = max(fmt.first_opset.dequantize or 0, FIRST_OPSET_WITH_BLOCKS if size else FIRST_OPSET_WITH_AXIS)
    draft.require_opset(scope, needed)
    attributes = {"axis": codes.axis, "block_size": size} if size else {"axis": 1 - codes.axis}
    return draft.add(node, "DequantizeLinear", tuple(inputs), name, **attributes)


def unpacked(packed: npt.NDArray[np.uint8], bits: int) -> Integers:
    """Unpack bytes that hold several codes each, along the last axis, with the first code in the low bits."""
    parts = [(packed >> shift) & np.uint8(2**bits - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def unpacked_rows(array: Array, shape: tuple[int, ...], bits: int) -> Integers:
    """Unpack zero points of blocks, whose rows are packed into bytes, and return them in ``shape``.

    Raises:
        UnfitError: ``array`` has another number of bytes.
    """
    width = shape[-1]
    packed = reshaped(array, (*shape[:-1], -(-width * bits // 8)), "bytes of zero points").astype(np.uint8)
    return unpacked(packed, bits)[..., :width]


def whole_numbers(array: Array) -> Integers:
    """Return zero points as integers.

    Raises:
        UnfitError: A zero point is not an integer, or is far outside the range of codes.
    """
    reals = as_reals(array)
    if not np.array_equal(reals, np.round(reals)) or np.any(np.abs(reals) > MAX_ZERO_POINT):
        raise UnfitError("its zero points must be 8-bit integers, as a DQ needs them")
    return reals.astype(np.int16)


def stored_tensor(context: RuleContext, value: Value | None, *types: int) -> onnx.TensorProto:
    """Return a stored constant.

    Raises:
        UnfitError: The constant is computed, or has another type.
    """
    tensor = context.constants.direct(value) if value is not None else None
    if tensor is None or tensor.data_type not in types:
        raise UnfitError("its weights are not stored as codes")
    return tensor


def scales(context: RuleContext, value: Value | None, shape: tuple[int, ...]) -> Array:
    """Return constant scales in a shape.

    Raises:
        UnfitError: The scales are not constant, have another number of elements, or a type that no DQ accepts.
    """
    array = context.array(value)
    if array is None or context.elem_type(value) not in FLOAT_TYPES:
        raise UnfitError("its scales must be constant floats")
    return reshaped(array, shape, "scales")


def reshaped(array: Array, shape: tuple[int, ...], what: str) -> Array:
    """Return an array in a shape; older exporters store scales and zero points flat.

    Raises:
        UnfitError: ``array`` has another number of elements.
    """
    if array.size != math.prod(shape):
        raise UnfitError(f"it has {array.size} {what}; expected {math.prod(shape)}")
    return array.reshape(shape)


def _stored(codes: BlockCodes) -> Array:
    found = codes.read()
    if not codes.keeps_zero_point:
        zero = np.repeat(codes.zero_point.astype(np.int16), codes.block_size, axis=codes.axis)
        found = found.astype(np.int16) - np.take(zero, range(codes.shape[codes.axis]), axis=codes.axis)
    return found.astype(codes.format.dtype)


def _spread(codes: BlockCodes, array: Array) -> Array:
    """Return the scales or zero points of the written blocks."""
    size, axis = codes.stored_block, codes.axis
    if not size:
        return array.reshape(-1)
    if size == codes.block_size:
        return array
    return np.take(np.repeat(array, codes.block_size // size, axis=axis), range(codes.shape[axis] // size), axis=axis)
