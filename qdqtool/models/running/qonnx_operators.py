"""Evaluate ``Quant`` and ``BipolarQuant`` of QONNX (:mod:`qdqtool.models.graph.index.signature`), in float32.

Source: QONNX, docs/qonnx-custom-ops/intquant_v1.md: codes are x / scale + zero point, clamped to the range of the bit
width and then rounded; the zero point is subtracted before the product with the scale.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from qdqtool.errors import ArgumentError
from qdqtool.models.graph.index.signature import BIPOLAR, DOMAINS, QUANT
from qdqtool.numerics.dtypes import FLOAT32, Array

Rounding = Callable[[Array], Array]

HALF_TO_EVEN = ("ROUND", "HALF_EVEN")
"""The rounding of ONNX's QuantizeLinear."""

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
    """The codes of a ``Quant``.

    Attributes:
        low: The lowest code.
        high: The highest code.
        rounding: Name of its rounding mode, in upper case.
    """

    low: float
    high: float
    rounding: str

    def codes(self, x: Array, scale: Array, zero_point: Array) -> Array:
        """Return the codes of real numbers, as float32."""
        with np.errstate(all="ignore"):
            scaled = x / scale + zero_point
        return _ROUNDINGS[self.rounding](np.clip(scaled, np.float32(self.low), np.float32(self.high)))


def is_evaluated(node: onnx.NodeProto) -> bool:
    """Whether :func:`evaluate` knows the operator."""
    return node.domain in DOMAINS and (node.op_type in QUANT or node.op_type == BIPOLAR)


def evaluate(node: onnx.NodeProto, inputs: Sequence[Array | None]) -> tuple[Array, ...]:
    """Return the outputs of a node.

    Args:
        node: The node.
        inputs: Its inputs; None for an absent one.

    Raises:
        ArgumentError: An input or attribute is absent, or does not fit.
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
    """Return the codes of a ``Quant``.

    Args:
        node: The node.
        bit_width: Its input 3.

    Raises:
        ArgumentError: The bit width is none that float32 computes exactly, or the rounding mode is unknown.
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
    # One signed bit means -1 and 1, which no other range does; 32 bits and more are not exact in float32.
    if not (1 + is_signed <= bits <= 32 and bits.is_integer()):
        raise ArgumentError(f"its bit width is {bits:g}; known are whole numbers from {1 + is_signed} to 32")
    if is_signed:
        return QuantRange(-(2 ** (bits - 1)) + is_narrow, 2 ** (bits - 1) - 1, rounding)
    return QuantRange(0, 2**bits - 1 - is_narrow, rounding)
