"""Rewrite ONNX Runtime's MatMulNBits as MatMul of a DQ with the same weights.

MatMulNBits sums in another order than MatMul, so outputs differ by rounding. With ``accuracy_level`` 4, MatMulNBits
also rounds the activations to int8; the rewritten model does not.
"""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

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
    whole_numbers,
    write_dequantize,
)
from qdqtool.linting.repair.forms._chain import result_of
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.tensors import element_count, read_array

DEQUANTIZED = Offer("safe", "writes MatMulNBits as MatMul of a DQ with the same weights")

WEIGHT, SCALES, ZERO_POINTS, ORDER, BIAS = 1, 2, 3, 4, 5
INT8_ACTIVATIONS = 4
"""The ``accuracy_level`` at which ONNX Runtime rounds the activations to int8."""


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every MatMulNBits."""
    for node in context.nodes:
        if node.domain == "com.microsoft" and node.op_type == "MatMulNBits":
            yield node, DEQUANTIZED.fix(_words(context, node), _write, node)


def _words(context: RuleContext, node: NodeView) -> str:
    made = described(lambda: _codes(context, node))
    rounded = node.attribute("accuracy_level", 0) == INT8_ACTIVATIONS
    note = "; ONNX Runtime rounds its activations to int8 (accuracy_level 4), MatMul does not" if rounded else ""
    return f"writes MatMulNBits as MatMul of {made} with the same weights{note}"


def _write(node: NodeView, draft: Draft) -> None:
    weight = write_dequantize(draft, node, _codes(draft.context, node))
    output, bias = result_of(node), node.input_name(BIAS)
    draft.set_operator(node, "MatMul")
    for attribute in node.proto.attribute:
        draft.set_attribute(node, attribute.name, None)
    draft.set_input(node, WEIGHT, weight)
    for index in range(SCALES, len(node.proto.input)):
        draft.set_input(node, index, "")
    if bias:
        made = draft.namer.tensor(f"{output.name}_without_bias")
        draft.rename_output(node, made)
        draft.place(node.scope, "Add", (made, bias), output.name)


def _codes(context: RuleContext, node: NodeView) -> BlockCodes:
    """Return the codes of the weight, [K, N]."""
    rows, columns, bits, size = _numbers(node)
    blocks = -(-columns // size)
    tensor = stored_tensor(context, node.input(WEIGHT), TensorProto.UINT8)
    if element_count(tensor) * 8 != rows * blocks * size * bits:
        raise UnfitError("the shape of its weights does not fit K, N, bits and block_size")
    _check_order(context, node, columns, size)
    found = scales(context, node.input(SCALES), (rows, blocks))
    _check_type(context, node)

    def read() -> Integers:
        packed = read_array(context.model, tensor).astype(np.uint8).reshape(rows, -1)
        return unpacked(packed, bits)[:, :columns].T

    zero = _zero_points(context, node, (rows, blocks), bits)
    return BlockCodes(tensor, read, (columns, rows), (0, 2**bits - 1), found.T, zero.T, 0, min(size, columns))


def _numbers(node: NodeView) -> tuple[int, int, int, int]:
    """Return N, K, the bits of a code and the block size."""
    defaults = {"N": 0, "K": 0, "bits": 4, "block_size": 0}
    numbers = [node.attribute(name, default) for name, default in defaults.items()]
    if not all(isinstance(number, int) for number in numbers):
        raise UnfitError("its bits, block_size, K and N must be integers")
    rows, columns, bits, size = numbers
    if bits not in BITS_OF_PACKED:
        raise UnfitError(f"it has {bits} bits; expected 2, 4 or 8")
    if min(rows, columns, size) < 1:
        raise UnfitError("its K, N and block_size must be positive")
    return rows, columns, bits, size


def _zero_points(context: RuleContext, node: NodeView, shape: tuple[int, int], bits: int) -> Integers:
    """Return a zero point for each block. uint8 zero points are packed; the default is half the range."""
    if not node.input_name(ZERO_POINTS):
        return np.full(shape, 2 ** (bits - 1), np.int16)
    array = context.array(node.input(ZERO_POINTS))
    if array is None:
        raise UnfitError("its zero points are not constant")
    if array.dtype != np.uint8:
        return whole_numbers(reshaped(array, shape, "zero points"))
    return unpacked_rows(array, shape, bits)


def _check_order(context: RuleContext, node: NodeView, columns: int, size: int) -> None:
    """Refuse weights whose ``g_idx`` assigns rows to blocks out of order."""
    if not node.input_name(ORDER):
        return
    order = context.array(node.input(ORDER))
    if order is None or not np.array_equal(order.reshape(-1), np.arange(columns) // size):
        raise UnfitError("its g_idx assigns weights to blocks out of order (GPTQ with act-order); a DQ cannot do this")


def _check_type(context: RuleContext, node: NodeView) -> None:
    data, scale = (context.elem_type(node.input(index)) for index in (0, SCALES))
    if data is not None and data != scale:
        raise UnfitError("its data and its scales have different types")
