"""Evaluate nodes by our own core instead of a runtime: Q, DQ, and nodes that only move their tensors."""

from collections.abc import Callable

import numpy as np
import onnx

from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.constants import fold_node
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.plan import Placement
from qdqtool.models.running import qonnx_operators, tensorrt_operators
from qdqtool.models.running.ort_errors import RunError
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize, fake_quantize, quantize
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, Granularity, as_onnx_reads
from qdqtool.numerics.packing import unpack


def rounded(x: Array, placement: Placement) -> Array:
    """Quantize and dequantize ``x``, with the codes of the plan if it has any, else with the nearest codes.

    Args:
        x: Values of the tensor; of a constant, as stored.
        placement: The pair.

    Returns:
        An array of ``x``'s shape and type.
    """
    params = placement.params
    scheme = params.scheme
    if placement.codes is None:
        return fake_quantize(x, params.scale, scheme.format, scheme.granularity, params.zero_point)
    codes = unpack(np.frombuffer(placement.codes.make(), np.uint8), scheme.format, x.shape)
    return dequantize(codes, params.scale, scheme.granularity, params.zero_point, output_dtype=x.dtype)


Read = Callable[[Value], Array | None]
"""How a node's input is read; None where it is unknown."""


def granularity_of(entry: QdqNode, scale: Array) -> Granularity:
    """Return the granularity that ONNX gives a scale of that shape at this node."""
    found = as_onnx_reads(scale.shape, entry.data_rank, entry.axis, entry.block_size)
    return found if found is not None else Blocked(entry.axis, entry.block_size)


def precision_of(entry: QdqNode) -> np.dtype[np.generic] | None:
    """Return the type that the ``precision`` attribute names; None where it is absent."""
    given = entry.node.attribute("precision", 0)
    return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(given)) if given else None


def output_type_of(entry: QdqNode, scale: Array) -> np.dtype[np.generic]:
    """Return the output type of a DQ."""
    if entry.output_dtype is not None:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(entry.output_dtype))
    return FLOAT32 if scale.dtype == FLOAT8E8M0 else scale.dtype


def evaluate(node: NodeView, entry: QdqNode | None, read: Read) -> tuple[Array, ...]:
    """Compute the outputs of a node.

    Args:
        node: The node.
        entry: The node as a Q or DQ; None if it is neither.
        read: Reads its inputs.

    Raises:
        RunError: The inputs do not fit the node.
    """
    try:
        if entry is not None:
            return (_evaluate_qdq(entry, read),)
        arrays = [read(value) if value is not None else None for value in _inputs(node)]
        if tensorrt_operators.is_evaluated(node.proto):
            return tensorrt_operators.evaluate(node.proto, arrays, node.scope.opset)
        if qonnx_operators.is_evaluated(node.proto):
            return qonnx_operators.evaluate(node.proto, arrays)
        return (fold_node(node, arrays),)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        why = error.message if isinstance(error, ArgumentError) else str(error)
        raise RunError(f"{node.op_type} node '{node.label}' failed in qdqtool's own evaluator: {why}") from None


def _inputs(node: NodeView) -> list[Value | None]:
    return [node.input(index) for index in range(len(node.proto.input))]


def _evaluate_qdq(entry: QdqNode, read: Read) -> Array:
    data = read(entry.data) if entry.data is not None else None
    scale = read(entry.scale) if entry.scale is not None else None
    if data is None or scale is None:
        raise ArgumentError("data or scale is absent")
    zero_point = read(entry.zero_point) if entry.zero_point is not None else None
    if entry.is_of_tensorrt and not entry.block_size:
        granularity = tensorrt_operators.inferred_granularity(data, scale, entry.axis)
    else:
        granularity = granularity_of(entry, scale)
    if not entry.is_quantize:
        return dequantize(data, scale, granularity, zero_point, output_dtype=output_type_of(entry, scale))
    fmt = formats.by_onnx_type(entry.quantized_type or 0)
    if fmt is None:
        raise ArgumentError(f"its quantized type {entry.quantized_type} is none that we evaluate")
    saturate = bool(entry.node.attribute("saturate", 1))
    return quantize(data, scale, fmt, granularity, zero_point, precision=precision_of(entry), saturate=saturate)
