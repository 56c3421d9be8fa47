"""Rewrite an operator on codes as the float operator between DQ and Q; the node keeps its name and attributes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.linting.repair.forms._chain import result_of
from qdqtool.linting.rules import Draft, Offer, UnfitError, as_reals
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView

FLOATED = Offer("unsafe", "writes an operator on codes as the float operator between DQ and Q")


@dataclass(frozen=True, slots=True)
class Codes:
    """Indices of the inputs that hold one quantized tensor of an operator, and the axis of its scales.

    Attributes:
        data: Index of the codes; None for the output of the operator.
        scale: Index of the scale.
        zero_point: Index of the zero point.
        axis: Axis of per-axis scales; None if only one scale is legal.
    """

    data: int | None
    scale: int
    zero_point: int
    axis: int | None = None


def write_float(
    draft: Draft, node: NodeView, op_type: str, operands: Sequence[Codes], result: Codes, bias: str = ""
) -> None:
    """Make ``node`` an ``op_type`` on dequantized operands, and quantize its output.

    Raises:
        UnfitError: A scale or zero point is not constant, or is per-axis although only one scale is legal.
    """
    output = result_of(node)
    inputs = [_dequantized(draft, node, operand) for operand in operands]
    inputs += [bias] if bias else []
    # Empty names remove the inputs that the float operator does not have.
    inputs += [""] * (len(node.proto.input) - len(inputs))
    for index, name in enumerate(inputs):
        draft.set_input(node, index, name)
    made = draft.namer.tensor(f"{output.name}_float")
    draft.set_operator(node, op_type)
    draft.rename_output(node, made)
    names = _parameters(draft, node, result)
    draft.place(node.scope, "QuantizeLinear", (made, *names), output.name)


def float_bias(draft: Draft, node: NodeView, index: int, scales: tuple[int, int]) -> str:
    """Store an int32 bias as float and return its name, which is empty if there is no bias.

    ONNX defines the scale of the bias as the product of the scales of data and weight, and its zero point as 0.

    Raises:
        UnfitError: The bias is not constant, or has fewer elements than there are scales.
    """
    name = node.input_name(index)
    if not name:
        return ""
    codes, first, second = (draft.context.array(node.input(each)) for each in (index, *scales))
    if codes is None or first is None or second is None:
        raise UnfitError("its bias or a scale is not constant")
    try:
        bias = as_reals(codes) * as_reals(first).reshape(()) * as_reals(second).reshape(-1)
    except ValueError:
        raise UnfitError("the number of its scales does not fit its bias") from None
    return draft.constant(node.scope, f"{name}_float", bias.astype(np.float32))


def _dequantized(draft: Draft, node: NodeView, codes: Codes) -> str:
    assert codes.data is not None
    names = _parameters(draft, node, codes)
    scale = draft.context.array(node.input(codes.scale))
    assert scale is not None
    several = scale.size > 1
    if several and (codes.axis is None or scale.ndim != 1 or node.scope.opset < FIRST_OPSET_WITH_AXIS):
        raise UnfitError("it has several scales; a Q/DQ pair in their place can have only one")
    source = node.input_name(codes.data)
    return draft.add(node, "DequantizeLinear", (source, *names), source, axis=codes.axis if several else None)


def _parameters(draft: Draft, node: NodeView, codes: Codes) -> tuple[str, str]:
    for index in (codes.scale, codes.zero_point):
        if draft.context.array(node.input(index)) is None:
            raise UnfitError("a scale or zero point is not constant")
    return node.input_name(codes.scale), node.input_name(codes.zero_point)
