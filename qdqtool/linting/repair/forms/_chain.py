"""Recognize fake-quantization that exporters write as single operators.

The pattern: ``Div`` by the scale or ``Mul`` by its reciprocal, ``Round``, optionally ``Add`` of the zero point,
``Clip`` to the range of codes, optionally two ``Cast``, optionally ``Sub`` of the zero point, ``Mul`` by the scale.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from qdqtool.linting.rules import Draft, RuleContext, UnfitError, as_reals
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.number_format import NumberFormat

FORMATS: dict[tuple[float, float], str] = {
    (-128, 127): "int8",
    (-127, 127): "int8",
    (0, 255): "uint8",
    (-8, 7): "int4",
    (-7, 7): "int4",
    (0, 15): "uint4",
    (-32768, 32767): "int16",
    (0, 65535): "uint16",
}
"""The integer format of a range of codes; a narrow range excludes the lowest code."""

CASTS_TO = (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32)
CASTS_BACK = (TensorProto.FLOAT, TensorProto.FLOAT16)


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """One fake-quantization in single operators.

    Attributes:
        round: The Round node.
        source: The tensor that is quantized.
        result: The output of the last operator.
        scale: The scale by which the last Mul multiplies.
        zero_point: The zero point as real numbers; 0 if there is no zero point.
        format: The format of the codes.
        axis: The axis of per-axis scales; None for one scale.
        narrow: Whether the range excludes the lowest code.
    """

    round: NodeView
    source: Value
    result: Value
    scale: Array
    zero_point: npt.NDArray[np.float64]
    format: NumberFormat
    axis: int | None
    narrow: bool


def chains(context: RuleContext) -> Iterator[Chain]:
    """Yield every fake-quantization in single operators of a model."""
    rounds = (node for node in context.nodes if node.is_op("Round"))
    return (chain for _, chain in fitting(rounds, partial(_chain, context)))


Pattern = TypeVar("Pattern")


def fitting(nodes: Iterable[NodeView], read: Callable[[NodeView], Pattern]) -> Iterator[tuple[NodeView, Pattern]]:
    """Yield each node with the pattern that ``read`` returns; ``read`` raises :class:`UnfitError` if there is none."""
    for node in nodes:
        with contextlib.suppress(UnfitError):
            yield node, read(node)


def float_casts(context: RuleContext) -> Iterator[NodeView]:
    """Yield every Cast to float32."""
    return (node for node in context.nodes if node.is_op("Cast") and node.attribute("to") == TensorProto.FLOAT)


def _chain(context: RuleContext, node: NodeView) -> Chain:
    divided = _producer(node.input(0), "Div", "Mul")
    source, factor = _operands(context, divided)
    reciprocal = _positive(factor) if divided.is_op("Mul") else 1 / _positive(factor)
    walk = _Walk(context, next_node(node))
    before = walk.take_offset("Add")
    low, fmt = walk.take_range()
    walk.skip_cast(fmt)
    after = walk.take_offset("Sub")
    result, scale = walk.take_scale()
    zero = before if before is not None else np.zeros(())
    if after is None or before is None:
        _require(not np.any(zero) and not np.any(after if after is not None else 0), "only one side has a zero point")
    else:
        _require(np.array_equal(zero.reshape(-1), after.reshape(-1)), "the two zero points differ")
    _require(is_zero_point(zero, fmt), f"the zero point is not a code of {fmt}")
    constants = [each for each in (factor, before, after) if each is not None]
    axis = common_axis(scale, constants, context.shape(source))
    # A reciprocal that is stored in float32 is rounded, so the product with the scale is 1 only to about 1e-7.
    _require(
        np.allclose(reciprocal.reshape(-1) * as_reals(scale).reshape(-1), 1, rtol=1e-5, atol=0),
        "the quantizing and the dequantizing scale differ",
    )
    return Chain(node, source, result, scale, zero, fmt, axis, low == -fmt.high)


def is_zero_point(array: npt.NDArray[np.float64], fmt: NumberFormat) -> bool:
    """Return whether real numbers are codes of a format."""
    return bool(np.all((array >= fmt.low) & (array <= fmt.high) & (array == np.round(array))))


def common_axis(scale: Array, others: Iterable[Array], shape: tuple[int | str | None, ...] | None) -> int | None:
    """Return the axis of the data along which a scale and other constants vary, or None for a single scale.

    Args:
        scale: The scale.
        others: Other constants of the operators: each is one number, or one number for each scale.
        shape: Shape of the data; None if the rank is unknown.
    """
    axis = _axis_of(scale, shape)
    for other in others:
        _require(_axis_of(other, shape) in {None, axis}, "a constant is broadcast along another axis than the scale")
    return axis


def _axis_of(scale: Array, shape: tuple[int | str | None, ...] | None) -> int | None:
    if scale.size == 1:
        _require(scale.ndim <= (1 if shape is None else len(shape)), "a constant has a higher rank than the data")
        return None
    _require(shape is not None and scale.ndim <= len(shape), "the rank of the data is unknown")
    assert shape is not None
    long = [axis for axis, extent in enumerate(scale.shape) if extent != 1]
    _require(len(long) == 1, "the scale has several axes")
    axis = long[0] + len(shape) - scale.ndim
    _require(shape[axis] == scale.size, "the number of scales does not fit the data")
    return axis


class _Walk:
    """Walks forward from the Round, one operator at a time. Each operator must have only one reader."""

    def __init__(self, context: RuleContext, node: NodeView) -> None:
        self._context = context
        self._node = node

    def take_offset(self, op_type: str) -> npt.NDArray[np.float64] | None:
        """Move past the Add or Sub of a zero point, if there is one; return the zero point or None."""
        if not self._node.is_op(op_type):
            return None
        _, constant = _operands(self._context, self._node)
        self._node = next_node(self._node)
        return as_reals(constant)

    def take_range(self) -> tuple[float, NumberFormat]:
        """Move past the Clip; return its lowest code, and the format with its range of codes."""
        low, high = _clip_range(self._context, self._node)
        self._node = next_node(self._node)
        if (low, high) not in FORMATS:
            raise UnfitError(f"no integer format has exactly the codes {low:g} to {high:g}")
        return low, formats.get(FORMATS[low, high])

    def skip_cast(self, fmt: NumberFormat) -> None:
        """Move past Casts to codes and back, which change no value after a Clip to the range of these codes."""
        if self._node.is_op("Cast") and _holds(self._node.attribute("to"), fmt):
            back = next_node(self._node)
            _require(back.is_op("Cast") and back.attribute("to") in CASTS_BACK, "the codes are not cast back to float")
            self._node = next_node(back)

    def take_scale(self) -> tuple[Value, Array]:
        """Move past the Mul at the end; return its output and the scale."""
        _require(self._node.is_op("Mul"), "the chain does not end with a Mul")
        _, scale = _operands(self._context, self._node)
        return result_of(self._node), scale


def _clip_range(context: RuleContext, node: NodeView) -> tuple[float, float]:
    _require(node.is_op("Clip"), "the chain has no Clip")
    # Bounds are inputs, not attributes: this form of Clip and Round both exist since opset 11.
    bounds = [context.array(node.input(index)) for index in (1, 2)]
    _require(all(bound is not None and bound.size == 1 for bound in bounds), "the range is not constant")
    low, high = (float(as_reals(bound).reshape(())) for bound in bounds if bound is not None)
    return low, high


def _holds(onnx_type: object, fmt: NumberFormat) -> bool:
    """Return whether a Cast to a type keeps all codes of a format; in other types codes wrap around."""
    if onnx_type not in CASTS_TO:
        return False
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(onnx_type))
    return limits.min <= fmt.low and fmt.high <= limits.max


def _operands(context: RuleContext, node: NodeView) -> tuple[Value, Array]:
    """Return the tensor and the constant of a binary operator; for Div and Sub the constant is the second operand."""
    order = ((0, 1),) if node.is_op("Div", "Sub") else ((0, 1), (1, 0))
    for left, right in order:
        source, value = node.input(left), node.input(right)
        constant = context.array(value)
        if source is not None and constant is not None and context.array(source) is None:
            return source, constant
    raise UnfitError("no constant operand")


def other_operand(context: RuleContext, node: NodeView, data: Value | None) -> Array:
    """Return the constant that a Sub subtracts from data, or by which a Mul multiplies it.

    Raises:
        UnfitError: The other operand is not constant, or not exactly one operand is the data.
    """
    others = [value for value in (node.input(0), node.input(1)) if value is not data]
    if len(others) != 1 or (node.is_op("Sub") and node.input(0) is not data):
        raise UnfitError("exactly one operand must be the data")
    array = context.array(others[0])
    if array is None:
        raise UnfitError("an operand is not constant")
    return array


def _producer(value: Value | None, *op_types: str) -> NodeView:
    if value is None or value.producer is None or not value.producer.is_op(*op_types):
        raise UnfitError("the operators in front of the Round have another form")
    if len(value.uses) != 1 or value.is_output:
        raise UnfitError("an inner tensor of the chain must have exactly one reader")
    return value.producer


def next_node(node: NodeView) -> NodeView:
    """Return the only reader of the output of a node.

    Raises:
        UnfitError: The output has no reader or several.
    """
    value = node.output()
    if value is None or value.is_output or len(value.uses) != 1 or value.uses[0].node.scope is not node.scope:
        raise UnfitError("an inner tensor of the chain must have exactly one reader")
    return value.uses[0].node


def result_of(node: NodeView) -> Value:
    """Return the output of a node.

    Raises:
        UnfitError: The node has no output.
    """
    result = node.output()
    if result is None:
        raise UnfitError("it has no output")
    return result


def write_constants(draft: Draft, scope: Scope, name: str, scale: Array, zero: Array) -> tuple[str, str]:
    """Store a scale and a zero point, either as scalars or with one number for each channel; return their names."""
    shape = () if scale.size == 1 else (scale.size,)
    zeros = np.broadcast_to(zero.reshape(-1), (scale.size,)).reshape(shape)
    scale_name = draft.constant(scope, f"{name}_scale", scale.reshape(shape))
    return scale_name, draft.constant(scope, f"{name}_zero_point", zeros)


def _positive(array: Array) -> npt.NDArray[np.float64]:
    reals = as_reals(array)
    _require(bool(np.all(reals > 0)), "a scale is not positive")
    return reals


def _require(condition: object, reason: str) -> None:
    if not condition:
        raise UnfitError(reason)
