"""Rewrite ONNX Runtime's GatherBlockQuantized, a table of embeddings in blocks, as Gather of a DQ of the table."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.errors import ArgumentError
from qdqtool.linting.repair.forms._block_codes import (
    BITS_OF_PACKED,
    BlockCodes,
    Integers,
    described,
    reshaped,
    scales,
    stored_tensor,
    unpacked,
    unpacked_rows,
    write_dequantize,
)
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import normalize_axis

DEQUANTIZED = Offer("safe", "writes GatherBlockQuantized as Gather of a DQ with the same values")

TABLE, SCALES, ZERO_POINTS = 0, 2, 3


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every GatherBlockQuantized."""
    for node in context.nodes:
        if node.domain == "com.microsoft" and node.op_type == "GatherBlockQuantized":
            yield node, DEQUANTIZED.fix(_words(context, node), _write, node)


def _words(context: RuleContext, node: NodeView) -> str:
    made = described(lambda: _codes(context, node))
    return f"writes GatherBlockQuantized as Gather of {made} with the same values"


def _write(node: NodeView, draft: Draft) -> None:
    codes = _codes(draft.context, node)
    axis = _axis(node, "gather_axis", 0, len(codes.shape))
    table = write_dequantize(draft, node, codes)
    draft.set_operator(node, "Gather")
    for attribute in node.proto.attribute:
        draft.set_attribute(node, attribute.name, None)
    draft.set_attribute(node, "axis", axis)
    draft.set_input(node, TABLE, table)
    for index in range(SCALES, len(node.proto.input)):
        draft.set_input(node, index, "")


def _codes(context: RuleContext, node: NodeView) -> BlockCodes:
    tensor = stored_tensor(context, node.input(TABLE), TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4)
    is_packed = tensor.data_type == TensorProto.UINT8
    bits, size = node.attribute("bits", 4), node.attribute("block_size", 128)
    if bits not in (BITS_OF_PACKED if is_packed else (4,)) or not isinstance(size, int) or size < 1:
        raise UnfitError(
            f"it has {bits} bits in blocks of {size}; expected 4 bits (in a uint8 table 2, 4 or 8) and 1 or more"
        )
    shape = tuple(tensor.dims)
    axis = _axis(node, "quantize_axis", 1, len(shape))
    if is_packed:
        if axis != len(shape) - 1:
            raise UnfitError("its codes are packed along the last axis, but its blocks divide another axis")
        shape = (*shape[:-1], shape[-1] * 8 // bits)
    blocks = (*shape[:axis], -(-shape[axis] // size), *shape[axis + 1 :])
    if 0 in blocks:
        raise UnfitError("its table is empty")
    found = scales(context, node.input(SCALES), blocks)

    def read() -> Integers:
        stored = read_array(context.model, tensor)
        return unpacked(stored.astype(np.uint8), bits) if is_packed else stored.astype(np.int8)

    if node.input_name(ZERO_POINTS) and context.elem_type(node.input(ZERO_POINTS)) != tensor.data_type:
        raise UnfitError("its zero points have another type than its table")
    zero = _zero_points(context, node, blocks, bits if is_packed else 0)
    return BlockCodes(tensor, read, shape, _limits(tensor, bits), found, zero, axis, min(size, shape[axis]))


def _limits(tensor: onnx.TensorProto, bits: int) -> tuple[int, int]:
    if tensor.data_type == TensorProto.INT4:
        return int(formats.get("int4").low), int(formats.get("int4").high)
    return 0, 2**bits - 1


def _zero_points(context: RuleContext, node: NodeView, shape: tuple[int, ...], bits: int) -> Integers:
    """Return a zero point for each block. The default is half the range for packed codes, otherwise 0."""
    if not node.input_name(ZERO_POINTS):
        return np.full(shape, 2 ** (bits - 1) if bits else 0, np.int16)
    array = context.array(node.input(ZERO_POINTS))
    if array is None:
        raise UnfitError("its zero points are not constant")
    if not bits:
        return reshaped(array, shape, "zero points").astype(np.int16)
    return unpacked_rows(array, shape, bits)


def _axis(node: NodeView, name: str, default: int, rank: int) -> int:
    try:
        return normalize_axis(node.attribute(name, default), rank)
    except (ArgumentError, TypeError):
        raise UnfitError(f"its {name} is not an axis of its table") from None
