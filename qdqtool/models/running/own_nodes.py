"""Evaluate nodes with our own core instead of a runtime: Q, DQ, QONNX's ``Quant``, and nodes that only move values.

Source of ``Quant``: QONNX, docs/qonnx-custom-ops/intquant_v1.md. Codes are x / scale + zero point, clamped to the range
of the bit width and then rounded. The zero point is subtracted before the multiplication by the scale.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.constants import fold_node
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.signature import BIPOLAR, DOMAINS, QUANT
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.plan import Placement
from qdqtool.models.running import tensorrt_operators
from qdqtool.models.running.ort_errors import RunError
from qdqtool.numerics import formats
from qdqtool.numerics.affine import dequantize, fake_quantize, quantize
from qdqtool.numerics.dtypes import FLOAT8E8M0, FLOAT32, Array
from qdqtool.numerics.granularity import Blocked, Granularity, as_onnx_reads
from qdqtool.numerics.packing import unpack

Rounding = Callable[[Array], Array]

HALF_TO_EVEN = ("ROUND", "HALF_EVEN")
"""The rounding mode of ONNX's QuantizeLinear."""

_ROUNDINGS: Mapping[str, Rounding] = {
    **dict.fromkeys(HALF_TO_EVEN, np.round),
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.copysign(np.ceil(np.abs(x)), x),
    "DOWN": np.trunc,
    "ROUND_TO_ZERO": np.trunc,
    "HALF_UP": lambda x: np.copysign(np.floor(np.abs(x) + np.float32(0.5)), x),
    "HALF_DOWN": lambda x: np.copysign(np.ceil(np.abs(x) - np.float32(0.5)), x),
}


@dataclass(frozen=True, slots=True)
class QuantRange:
    """The range of the codes of a ``Quant`` node, with its rounding mode.

    Attributes:
        low: The lowest code.
        high: The highest code.
        rounding: Name of the rounding mode, in upper case.
    """

    low: float
    high: float
    rounding: str

    def codes(self, x: Array, scale: Array, zero_point: Array) -> Array:
        """Return the codes of real values, as float32."""
        with np.errstate(all="ignore"):
            scaled = x / scale + zero_point
        return _ROUNDINGS[self.rounding](np.clip(scaled, np.float32(self.low), np.float32(self.high)))


def is_quant(node: onnx.NodeProto) -> bool:
    """Return whether the node is a ``Quant`` or ``BipolarQuant`` of QONNX."""
    return node.domain in DOMAINS and (node.op_type in QUANT or node.op_type == BIPOLAR)


def evaluate_quant(node: onnx.NodeProto, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    """Return the outputs of a QONNX quantizer.

    Args:
        node: The node.
        inputs: Input arrays; None for an absent input.

    Raises:
        ArgumentError: An input or attribute is absent or does not fit.
    """
    count = 2 if node.op_type == BIPOLAR else 4
    given = [each.astype(FLOAT32) for each in inputs[:count] if each is not None]
    if len(given) < count:
        raise ArgumentError(f"it has {len(given)} inputs; expected {count}")
    x, scale = given[:2]
    if node.op_type == BIPOLAR:
        return (np.where(x >= 0, scale, -scale).astype(FLOAT32),)
    zero_point, bits = given[2:]
    codes = code_range(node, bits).codes(x, scale, zero_point)
    with np.errstate(all="ignore"):
        return (((codes - zero_point) * scale).astype(FLOAT32),)


def code_range(node: onnx.NodeProto, bit_width: Array) -> QuantRange:
    """Return the range of the codes of a ``Quant`` node.

    Args:
        node: The node.
        bit_width: Input 3 of the node.

    Raises:
        ArgumentError: The bit width is not exact in float32, or the rounding mode is unknown.
    """
    values = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute if not each.ref_attr_name}
    mode = values.get("rounding_mode", b"ROUND")
    rounding = mode.decode(errors="replace").upper() if isinstance(mode, bytes) else str(mode)
    if rounding not in _ROUNDINGS:
        raise ArgumentError(f"its rounding_mode is '{rounding}'; known are {', '.join(_ROUNDINGS)}")
    if bit_width.size != 1:
        raise ArgumentError(f"it has {bit_width.size} bit widths; expected 1")
    bits = float(bit_width.reshape(-1)[0])
    is_signed, is_narrow = bool(values.get("signed", 1)), bool(values.get("narrow", 0))
    # One signed bit means the codes -1 and 1, unlike all other ranges. 32 bits and more are not exact in float32.
    if not (1 + is_signed <= bits <= 32 and bits.is_integer()):
        raise ArgumentError(f"its bit width is {bits:g}; known are whole numbers from {1 + is_signed} to 32")
    if is_signed:
        return QuantRange(-(2 ** (bits - 1)) + is_narrow, 2 ** (bits - 1) - 1, rounding)
    return QuantRange(0, 2**bits - 1 - is_narrow, rounding)


def rounded(x: Array, placement: Placement) -> Array:
    """Quantize and dequantize ``x``, with the codes of the plan if there are any, otherwise with the nearest codes.

    Returns:
        An array with the shape and type of ``x``.
    """
    params = placement.params
    scheme = params.scheme
    if placement.codes is None:
        return fake_quantize(x, params.scale, scheme.format, scheme.granularity, params.zero_point)
    codes = unpack(np.frombuffer(placement.codes.make(), np.uint8), scheme.format, x.shape)
    return dequantize(codes, params.scale, scheme.granularity, params.zero_point, output_dtype=x.dtype)


Read = Callable[[Value], Array | None]
"""Reads an input of a node; returns None if its value is unknown."""


def granularity_of(entry: QdqNode, scale: Array) -> Granularity:
    """Return the granularity that ONNX defines for a scale of this shape at this node."""
    found = as_onnx_reads(scale.shape, entry.data_rank, entry.axis, entry.block_size)
    return found if found is not None else Blocked(entry.axis, entry.block_size)


def precision_of(entry: QdqNode) -> np.dtype[np.generic] | None:
    """Return the type that the ``precision`` attribute names, or None without the attribute."""
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
        entry: The node as a Q or DQ; None for other nodes.
        read: Returns the array of an input tensor.

    Raises:
        RunError: The inputs do not fit the node.
    """
    try:
        if entry is not None:
            return (_evaluate_qdq(entry, read),)
        arrays = [read(value) if value is not None else None for value in node.inputs]
        if tensorrt_operators.is_evaluated(node.proto):
            return tensorrt_operators.evaluate(node.proto, arrays, node.scope.opset)
        if is_quant(node.proto):
            return evaluate_quant(node.proto, arrays)
        return (fold_node(node, arrays),)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        why = error.message if isinstance(error, ArgumentError) else str(error)
        raise RunError(f"{node.op_type} node '{node.label}' failed in qdqtool's own evaluator: {why}") from None


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
        raise ArgumentError(f"qdqtool cannot evaluate its quantized type {entry.quantized_type}")
    saturate = bool(entry.node.attribute("saturate", 1))
    return quantize(data, scale, fmt, granularity, zero_point, precision=precision_of(entry), saturate=saturate)
