"""Rewrite Quant of QONNX, which Brevitas exports, as Q/DQ of ONNX.

Stored weights become codes with a DQ, for every bit width and rounding. For activations, an int8 pair has the same
values if Quant rounds half to even. If Quant has fewer codes than int8, a float Clip precedes the Q. With a zero point,
values halfway between two codes may change by one step, since Quant adds the zero point before rounding.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto

from qdqtool.errors import ArgumentError
from qdqtool.linting.repair.forms._chain import common_axis, is_zero_point, result_of, write_constants
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError, as_reals
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.signature import QUANT, is_quantizer
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.running.own_nodes import HALF_TO_EVEN, QuantRange, code_range
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.numerics.number_format import NumberFormat

PAIR = Offer("safe", "writes Quant of QONNX as Q/DQ", is_open_for_nan=True)

DATA, SCALE, ZERO_POINT, BITS = range(4)


@dataclass(frozen=True, slots=True, eq=False)
class _Quant:
    """A Quant node.

    Attributes:
        node: The node.
        source: The tensor that it quantizes.
        stored: The stored constant that it quantizes; None for activations.
        range: The range of codes.
        scale: The scales.
        zero_point: The zero points.
        axis: The axis of per-axis scales; None for one scale.
    """

    node: NodeView
    source: Value
    stored: onnx.TensorProto | None
    range: QuantRange
    scale: Array
    zero_point: npt.NDArray[np.float64]
    axis: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """The Q/DQ pair that gives the same values as a Quant.

    Attributes:
        format: The format of the codes.
        zero_point: The zero points.
        is_clipped: Whether the Quant has fewer codes than the format.
    """

    format: NumberFormat
    zero_point: npt.NDArray[np.float64]
    is_clipped: bool


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every quantizer of QONNX."""
    for node in context.nodes:
        if is_quantizer(node.proto):
            yield node, PAIR.fix(_words(context, node), _write, node)


def _words(context: RuleContext, node: NodeView) -> str:
    words = f"writes {node.op_type} of QONNX as "
    try:
        quant = _quant(context, node)
        pair = _pair(quant)
    except UnfitError:
        return f"{words}Q/DQ"
    if quant.stored is not None:
        return words + (f"a DQ of stored {pair.format} codes" if pair is not None else "a float constant")
    if pair is None:
        return f"{words}Q/DQ"
    limits = f" behind a Clip to the codes of {quant.range.low:g} to {quant.range.high:g}" if pair.is_clipped else ""
    return f"{words}a Q/DQ pair of {pair.format}{limits}"


def _write(node: NodeView, draft: Draft) -> None:
    quant = _quant(draft.context, node)
    pair, output = _pair(quant), result_of(node)
    if pair is None:
        _write_floats(quant, output, draft)
        return
    draft.require_opset(node.scope, max(pair.format.first_opset.quantize or 0, FIRST_OPSET_WITH_AXIS))
    name = quant.source.name
    parameters = write_constants(draft, node.scope, name, quant.scale, pair.zero_point.astype(pair.format.dtype))
    if quant.stored is not None:
        like = TensorProto(data_type=pair.format.onnx_type, dims=quant.stored.dims)
        made = partial(_codes, draft.context, quant, pair)
        codes = draft.weights(node.scope, f"{name}_quantized", like, made)
    else:
        source = _clipped(draft, quant) if pair.is_clipped else name
        codes = draft.add(node, "QuantizeLinear", (source, *parameters), name, axis=quant.axis)
    draft.remove(node)
    draft.place(node.scope, "DequantizeLinear", (codes, *parameters), output.name, axis=quant.axis)


def _write_floats(quant: _Quant, output: Value, draft: Draft) -> None:
    """Store the rounded values of a constant whose codes fit no 8-bit type: biases have 16 or 32 bits."""
    if quant.stored is None:
        raise UnfitError(f"no type of a Q has exactly its codes, {quant.range.low:g} to {quant.range.high:g}")
    like = TensorProto(data_type=TensorProto.FLOAT, dims=quant.stored.dims)
    made = partial(_reals, draft.context, quant)
    draft.replace(output, draft.weights(quant.node.scope, f"{quant.source.name}_quantized", like, made))
    draft.remove(quant.node)


def _quant(context: RuleContext, node: NodeView) -> _Quant:
    if node.op_type not in QUANT or node.is_parametric:
        raise UnfitError(f"Q/DQ cannot express {node.op_type}")
    source = node.input(DATA)
    scale, zero, bits = (context.array(node.input(index)) for index in (SCALE, ZERO_POINT, BITS))
    if source is None or scale is None or zero is None or bits is None:
        raise UnfitError("its scale, zero point or bit width is absent or not constant")
    if context.elem_type(source) not in {TensorProto.FLOAT, None} or scale.dtype != FLOAT32:
        raise UnfitError("its data or its scale is not float32")
    zeros = as_reals(zero)
    _check_values(as_reals(scale), zeros)
    try:
        codes = code_range(node.proto, bits)
    except ArgumentError as error:
        raise UnfitError(error.message) from None
    stored = context.constants.direct(source)
    if stored is None and codes.rounding not in HALF_TO_EVEN:
        raise UnfitError(f"its rounding mode is {codes.rounding}; a Q rounds half to even")
    return _Quant(node, source, stored, codes, scale, zeros, common_axis(scale, [zeros], context.shape(source)))


def _check_values(scale: npt.NDArray[np.float64], zero: npt.NDArray[np.float64]) -> None:
    if not scale.size or not zero.size:
        raise UnfitError("its scale or zero point is empty")
    if not np.all(np.isfinite(scale) & (scale > 0)):
        raise UnfitError("a scale is not finite and positive")
    if not np.array_equal(zero, np.round(zero)):
        raise UnfitError("its zero point must be an integer, as in a Q")


def _pair(quant: _Quant) -> _Pair | None:
    """Return the pair, or None if no type holds the codes, or no 8-bit type holds the codes of a constant."""
    # TensorRT accepts only the zero point 0. The pair has it if int8 holds every code minus its zero point, which is
    # true for all codes of 7 bits.
    zero, low, high = quant.zero_point, quant.range.low, quant.range.high
    int8 = formats.get("int8")
    lowest, highest = low - float(zero.max()), high - float(zero.min())
    if int8.low <= lowest and highest <= int8.high and (quant.stored is not None or np.ptp(zero) == 0):
        return _Pair(int8, np.zeros_like(zero), lowest > int8.low or highest < int8.high)
    for name in ("int8", "uint8") if quant.stored is not None else ("int8", "uint8", "int16", "uint16"):
        fmt = formats.get(name)
        if fmt.low <= low and high <= fmt.high and is_zero_point(zero, fmt):
            return _Pair(fmt, zero, low > fmt.low or high < fmt.high)
    return None


def _clipped(draft: Draft, quant: _Quant) -> str:
    """Clip the data to the values that the lowest and the highest code represent, and return the result."""
    # The Clip is exact: a bound that is rounded to float32 and divided by the scale still rounds to its code.
    node, name = quant.node, quant.source.name
    low, high = ((code - quant.zero_point) * as_reals(quant.scale) for code in (quant.range.low, quant.range.high))
    shape = () if quant.axis is None else low.shape
    bounds = [
        draft.constant(node.scope, f"{name}_{what}", bound.reshape(shape).astype(np.float32))
        for what, bound in (("low", low), ("high", high))
    ]
    if quant.axis is None:
        return draft.add(node, "Clip", (name, *bounds), name)
    return draft.add(node, "Min", (draft.add(node, "Max", (name, bounds[0]), name), bounds[1]), name)


def _codes(context: RuleContext, quant: _Quant, pair: _Pair) -> Array:
    with np.errstate(invalid="ignore"):
        return (_units(context, quant) + pair.zero_point).astype(pair.format.dtype)


def _reals(context: RuleContext, quant: _Quant) -> Array:
    return (_units(context, quant) * quant.scale).astype(FLOAT32)


def _units(context: RuleContext, quant: _Quant) -> Array:
    """Return the codes of the constant minus the zero point."""
    assert quant.stored is not None
    zero = quant.zero_point.astype(FLOAT32)
    return quant.range.codes(read_array(context.model, quant.stored), quant.scale, zero) - zero
