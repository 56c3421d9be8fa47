"""Place the pairs of Conv, ConvTranspose, Einsum, Gemm and MatMul: on both operands, or on neither.

A pair on only one operand costs time and accuracy and has no benefit: the kernel runs in float anyway.
"""

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.folders import MAX_FOLDED_ELEMENTS
from qdqtool.models.graph.index.qdq import QdqNode, is_dequantized
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.index.weight_folders import AT_ANY_SIZE
from qdqtool.models.ops import LEAST_CHANNELS, ProductOp
from qdqtool.numerics.granularity import Granularity, PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.quantization.planning.placement.context import (
    MISSING_OPERAND,
    QUANTIZED_ALREADY,
    Decision,
    PlacementContext,
    UseClaim,
)
from qdqtool.quantization.planning.placement.masks import carried_mask, made_divisor
from qdqtool.quantization.planning.placement.proposal import Reason, on_request


def decide_weighted(
    node: NodeView, family: ProductOp, context: PlacementContext, number_format: NumberFormat
) -> Decision:
    """Return the requests for Q/DQ pairs on the operands of a weighted operator, or why it stays float.

    A weight that already has codes needs no pair.
    """
    data, weight = node.input(family.activation_inputs[0]), node.input(family.weight_input)
    if data is None or weight is None:
        return MISSING_OPERAND
    kept = _has_codes(node, family, context, number_format)
    obstacle = _obstacle(family, data, weight, context, kept=kept)
    if obstacle is None:
        obstacle = _missing_kernel(node, family, weight, context, number_format)
    if obstacle is None and number_format.kind == "integer" and not context.selection.asks_for(node):
        obstacle = None if context.is_constant(weight) else made_divisor(node, context)
    if obstacle is not None:
        return obstacle
    operands = ((family.activation_inputs[0], data), (family.weight_input, weight))[: 1 if kept else 2]
    return tuple(_claim(node, index, value, family, context) for index, value in operands)


def leave_tiny(decisions: dict[NodeView, Decision], context: PlacementContext) -> None:
    """Replace claims in ``decisions``: a layer that is too small to gain gets the reason to skip it.

    Claims are kept in three cases: grouped convolutions, which have special kernels; a model with tiny layers only,
    which is made for experiments; and operators that the user named.
    """
    counted = (node for node, decision in decisions.items() if _counts(decision))
    known = {node: sides for node in counted if (sides := _channels(node, context)) is not None}
    tiny = {node: sides for node, sides in known.items() if (product := ops.product(node)) and not product.gains(sides)}
    for node, (inner, outer) in tiny.items() if len(tiny) < len(known) else ():
        if isinstance(decisions[node], tuple) and not context.selection.asks_for(node):
            channels = f"it has {inner} input and {outer} output channels"
            decisions[node] = on_request("few-channels", f"{channels}, and no kernel gains below {LEAST_CHANNELS}")


def _counts(decision: Decision) -> bool:
    """Return whether a layer is quantized or excluded by name: excluding large layers keeps tiny ones in float."""
    return (
        decision.code in {"accuracy", "excluded", "fallback"} if isinstance(decision, Reason) else decision is not None
    )


def _channels(node: NodeView, context: PlacementContext) -> tuple[int, int] | None:
    product = ops.product(node)
    if product is None:
        return None
    weight = node.input(product.weight_input)
    shape = context.shape(weight) if weight is not None and context.is_constant(weight) else None
    return product.channels(node, shape) if shape is not None else None


def _obstacle(family: ProductOp, data: Value, weight: Value, context: PlacementContext, *, kept: bool) -> Reason | None:
    if context.is_constant(data) and context.is_constant(weight):
        return Reason("constant-operand", "all its inputs are constant")
    if not family.two_activations:
        if context.is_constant(data):
            return Reason("constant-operand", f"its input '{data.name}' is constant")
        if not context.is_constant(weight):
            text = f"its weight '{weight.name}' is not constant; quantizing its input alone would gain nothing"
            return Reason("no-weight", text)
    if weight.is_input and weight.scope.is_function:
        return function_argument(weight)
    for value in (data,) if kept else (data, weight):
        found = _operand_obstacle(value, context)
        if found is not None:
            return found
    return None


def _missing_kernel(
    node: NodeView, family: ProductOp, weight: Value, context: PlacementContext, number_format: NumberFormat
) -> Reason | None:
    shape = context.shape(weight)
    if shape is None or context.selection.asks_for(node):
        return None
    missing = family.missing_kernel(node, shape, number_format)
    return Reason("no-kernel", missing) if missing is not None else None


def function_argument(weight: Value) -> Reason:
    """Return why a product whose weight is an argument of its function stays float."""
    return Reason(
        "function-argument",
        f"its weight may be an argument of the local function ('{weight.name}'); inline the function to see",
    )


def _operand_obstacle(value: Value, context: PlacementContext) -> Reason | None:
    if context.is_constant(value):
        if comes_dequantized(value):
            return QUANTIZED_ALREADY
        return context.type_obstacle(value) or not_computable(value, context)
    return carried_mask(value, context) or context.obstacle(value)


def not_computable(value: Value, context: PlacementContext) -> Reason | None:
    """Return why a weight that the model computes from constants cannot be stored, or None if it can."""
    if _is_only_moved(value, context) or context.index.constants.readable(value) is not None:
        return None
    cause = f"a shape does not fit, or it has more than {MAX_FOLDED_ELEMENTS:,} elements"
    return Reason("weight-not-computed", f"its weight '{value.name}' cannot be computed from its constants: {cause}")


def _is_only_moved(value: Value, context: PlacementContext) -> bool:
    """Return whether a weight is a stored tensor behind nodes that fold at any size; no data is read."""
    for source in ops.moved_from(value):
        if context.index.constants.direct(source) is not None:
            return True
        # If inference knows the shape, the node is valid for its input.
        if source.producer is None or not source.producer.is_op(*AT_ANY_SIZE):
            return False
        if context.index.types.full_shape(source) is None:
            return False
    return False


def comes_dequantized(value: Value | None) -> bool:
    """Return whether a constant comes from a DQ, directly or through other nodes."""
    while value is not None and value.producer is not None:
        if is_dequantized(value):
            return True
        value = value.producer.input(0)
    return False


def _has_codes(node: NodeView, family: ProductOp, context: PlacementContext, number_format: NumberFormat) -> bool:
    """Return whether the weight of a product is stored codes with a DQ, and the kernel accepts its scales."""
    # A pair on the data then makes it a product of codes. Such weights exist in normalized models whose data was
    # quantized at run time, and in weight-only models.
    value = node.input(family.weight_input)
    shape = context.shape(value) if value is not None and context.is_constant(value) else None
    if value is None or shape is None:
        return False
    axis = family.weight_axis(node, len(shape))
    while value is not None and value.producer is not None and ops.traits(value.producer).reorders_axes:
        axis = ops.source_axis(value.producer, axis, len(shape)) if axis is not None else None
        value = value.producer.input(0)
    entry = context.index.qdq.dequantizer_of(value)
    if entry is None or entry.quantized_type != number_format.onnx_type or not _is_symmetric(entry, context):
        return False
    found = entry.granularity
    return found == PerTensor() or (isinstance(found, PerAxis) and found.axis % len(shape) == axis)


def _is_symmetric(entry: QdqNode, context: PlacementContext) -> bool:
    if entry.zero_point is None:
        return True
    zero = context.index.constants.readable(entry.zero_point)
    return zero is not None and not np.any(zero.astype(np.float32))


def _claim(node: NodeView, index: int, value: Value, family: ProductOp, context: PlacementContext) -> UseClaim:
    if not context.is_constant(value):
        return UseClaim(node, index, value, "activation", PerTensor(), f"input of {node.op_type}")
    granularity = _weight_granularity(node, index, value, family, context)
    return UseClaim(node, index, value, "weight", granularity, f"weight of {node.op_type}")


def _weight_granularity(
    node: NodeView, index: int, value: Value, family: ProductOp, context: PlacementContext
) -> Granularity:
    """Return a granularity of one scale per output channel if this constant is the weight and has such an axis."""
    shape = context.shape(value)
    axis = family.weight_axis(node, len(shape)) if shape is not None and index == family.weight_input else None
    return PerAxis(axis) if axis is not None else PerTensor()
