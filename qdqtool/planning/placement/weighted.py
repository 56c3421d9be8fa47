"""Conv, ConvTranspose, Einsum, Gemm and MatMul: both operands get a pair, or none does.

A pair on one side only costs time and accuracy: the kernel runs in float all the same.
"""

from qdqtool import ops
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.numerics.granularity import Granularity, PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.ops import LEAST_CHANNELS, ProductOp
from qdqtool.planning.placement.claims import Claim, Decision, Skip
from qdqtool.planning.placement.context import PlacementContext
from qdqtool.planning.placement.masks import carries_mask


def decide_weighted(
    node: NodeView, family: ProductOp, context: PlacementContext, number_format: NumberFormat
) -> Decision:
    """Claims on both operands of a weighted operator, or why it stays float."""
    data, weight = node.input(family.activation_inputs[0]), node.input(family.weight_input)
    if data is None or weight is None:
        return Skip("an operand is missing")
    if not (context.is_float(data) and context.is_float(weight)):
        return None
    obstacle = _obstacle(family, data, weight, context)
    if obstacle is None:
        obstacle = _missing_kernel(node, family, weight, context, number_format)
    if obstacle is not None:
        return Skip(obstacle)
    operands = ((family.activation_inputs[0], data), (family.weight_input, weight))
    return tuple(_claim(node, index, value, family, context) for index, value in operands)


def leave_tiny(decisions: dict[NodeView, Decision], context: PlacementContext) -> None:
    """Turn claims of layers that are too small to gain into skips, in place.

    Grouped convolutions have kernels of their own, and a model of nothing but tiny layers is made to try things out:
    both keep theirs. So do operators that the user asked for.
    """
    claimed = (node for node, decision in decisions.items() if isinstance(decision, tuple))
    known = {node: sides for node in claimed if (sides := _channels(node, context)) is not None}
    tiny = {node: sides for node, sides in known.items() if (product := ops.product(node)) and not product.gains(sides)}
    for node, (inner, outer) in tiny.items() if len(tiny) < len(known) else ():
        if not context.selection.asks_for(node):
            decisions[node] = Skip(
                f"it has {inner} input and {outer} output channels, and no kernel gains below {LEAST_CHANNELS};"
                " name the operator in --op-types-to-quantize to quantize it all the same"
            )


def _channels(node: NodeView, context: PlacementContext) -> tuple[int, int] | None:
    product = ops.product(node)
    weight = node.input(product.weight_input) if product is not None else None
    shape = context.shape(weight) if weight is not None and context.is_constant(weight) else None
    return product.channels(node, shape) if product is not None and shape is not None else None


def _obstacle(family: ProductOp, data: Value, weight: Value, context: PlacementContext) -> str | None:
    if context.is_constant(data) and context.is_constant(weight):
        return "all its inputs are constant"
    if not family.two_activations:
        if context.is_constant(data):
            return f"its input '{data.name}' is constant"
        if not context.is_constant(weight):
            return f"its weight '{weight.name}' is not constant; quantizing its input alone would gain nothing"
    if weight.is_input and weight.scope.is_function and not context.is_constant(weight):
        return f"its weight may be an argument of the local function ('{weight.name}'); inline the function to tell"
    for value in (data, weight):
        found = _operand_obstacle(value, context)
        if found is not None:
            return found
    return None


def _missing_kernel(
    node: NodeView, family: ProductOp, weight: Value, context: PlacementContext, number_format: NumberFormat
) -> str | None:
    shape = context.shape(weight)
    if shape is None or context.selection.asks_for(node):
        return None
    return family.missing_kernel(node, shape, number_format)


def _operand_obstacle(value: Value, context: PlacementContext) -> str | None:
    if context.is_constant(value):
        quantized = is_dequantized(value)
        return "it is quantized already" if quantized else context.type_obstacle(value)
    if carries_mask(value, context):
        return f"'{value.name}' carries an attention mask, which one scale would not survive"
    return context.obstacle(value)


def is_dequantized(value: Value | None) -> bool:
    """Whether a constant comes from a DQ, be it through other nodes."""
    while value is not None and value.producer is not None:
        if value.producer.op_type == "DequantizeLinear":
            return True
        value = value.producer.input(0)
    return False


def _claim(node: NodeView, index: int, value: Value, family: ProductOp, context: PlacementContext) -> Claim:
    if not context.is_constant(value):
        return Claim(node, index, value, "activation", PerTensor(), f"input of {node.op_type}")
    granularity = _weight_granularity(node, index, value, family, context)
    return Claim(node, index, value, "weight", granularity, f"weight of {node.op_type}")


def _weight_granularity(
    node: NodeView, index: int, value: Value, family: ProductOp, context: PlacementContext
) -> Granularity:
    """A scale for each output channel, where the operator has such an axis and the weight stands at its usual place."""
    shape = context.shape(value)
    axis = family.weight_axis(node, len(shape)) if shape is not None and index == family.weight_input else None
    return PerAxis(axis) if axis is not None else PerTensor()
