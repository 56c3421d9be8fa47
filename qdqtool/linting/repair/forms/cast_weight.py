"""Rewrite Cast, Sub and Mul of stored codes as a DQ, with the same arithmetic bit for bit."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from qdqtool.linting.repair.forms._chain import (
    common_axis,
    fitting,
    float_casts,
    is_zero_point,
    next_node,
    other_operand,
    result_of,
    write_constants,
)
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError, as_reals
from qdqtool.linting.rules.support.words import format_of
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics.dtypes import Array

DEQUANTIZED = Offer("safe", "writes Cast, Sub and Mul of stored codes as a DQ")

CODES = (
    *(TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4),
    *(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2),
)


@dataclass(frozen=True, slots=True, eq=False)
class _Weight:
    codes: Value
    result: Value
    end: NodeView
    scale: Array
    zero_point: npt.NDArray[np.float64]
    axis: int | None


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every chain of Cast, Sub and Mul on stored codes."""
    for node, weight in fitting(float_casts(context), partial(_weight, context)):
        words = f"writes Cast and Mul of the {format_of(context.elem_type(weight.codes))} constant as a DQ"
        yield node, DEQUANTIZED.fix(words, _write, weight)


def _weight(context: RuleContext, cast: NodeView) -> _Weight:
    codes = cast.input(0)
    tensor = context.constants.direct(codes) if codes is not None else None
    if codes is None or tensor is None or tensor.data_type not in CODES:
        raise UnfitError("it does not read stored codes")
    zero, before, node = np.zeros(()), cast, next_node(cast)
    if node.is_op("Sub"):
        zero, before, node = as_reals(other_operand(context, node, cast.output())), node, next_node(node)
    if not node.is_op("Mul"):
        raise UnfitError("the chain does not end with a Mul")
    # The operand that leads to the codes is constant too, and may have the shape of a scale.
    scale = other_operand(context, node, before.output())
    return _Weight(codes, result_of(node), node, scale, zero, common_axis(scale, [zero], tuple(tensor.dims)))


def _write(weight: _Weight, draft: Draft) -> None:
    scope = weight.end.scope
    fmt = format_of(draft.context.elem_type(weight.codes))
    assert fmt is not None
    first = fmt.first_opset.dequantize
    assert first is not None
    if scope.opset < max(first, FIRST_OPSET_WITH_AXIS):
        raise UnfitError(f"opset {scope.opset} has no DQ with these codes and scales")
    zero = weight.zero_point
    if not is_zero_point(zero, fmt) or (fmt.zero_point == "zero" and np.any(zero)):
        raise UnfitError(f"the zero point is not a legal one of {fmt}")
    name = weight.codes.name
    constants = write_constants(draft, scope, name, weight.scale, zero.astype(fmt.dtype))
    draft.remove(weight.end)
    draft.place(scope, "DequantizeLinear", (name, *constants), weight.result.name, axis=weight.axis)
