"""Place the pairs of weight-only modes: on constant weights of products, and nowhere else.

A kernel then reads few bits and multiplies in float. The pair is on the stored tensor, before any Transpose.
"""

from dataclasses import dataclass

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops import ProductOp, QuantizableOp
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import Blocked, Granularity, PerAxis, PerTensor
from qdqtool.quantization.planning.modes import Mode
from qdqtool.quantization.planning.placement.context import (
    MISSING_OPERAND,
    QUANTIZED_ALREADY,
    Decision,
    PlacementContext,
    UseClaim,
    share_slots,
)
from qdqtool.quantization.planning.placement.proposal import PlacementProposal, Reason, Selection
from qdqtool.quantization.planning.placement.propose import collect_skipped, is_computed_in_float, reason_to_leave
from qdqtool.quantization.planning.placement.weighted import (
    comes_dequantized,
    function_argument,
    leave_tiny,
    not_computable,
)

SMALLEST_BLOCK = 16
"""The smallest block size: smaller blocks need more memory for scales than they save, and have no kernels."""

_LOOKUP_TABLE = Reason("lookup-table", "it reads only a few rows of a table, so fewer bits would save no time")


@dataclass(frozen=True, slots=True)
class WeightGoal:
    """How weights are to be quantized.

    Attributes:
        mode: A weight-only mode.
        block_size: Number of elements in a block; None for one scale per output channel.
    """

    mode: Mode
    block_size: int | None


def propose_weights(index: ModelIndex, target: Target, selection: Selection, goal: WeightGoal) -> PlacementProposal:
    """Place the pairs of a weight-only mode in a float model.

    Returns:
        Slots of weights, and every product or table that could be quantized but is not, with the reason.
    """
    selection.matches(index.view)
    context = PlacementContext(index, target, selection)
    decisions = {node: _decide(node, context, goal) for node in index.view.nodes()}
    leave_tiny(decisions, context)
    ordered = list(decisions.items())
    claims = [claim for _, decision in ordered if isinstance(decision, tuple) for claim in decision]
    return PlacementProposal(share_slots(claims, goal.mode.weight_scheme), collect_skipped(ordered))


def _decide(node: NodeView, context: PlacementContext, goal: WeightGoal) -> Decision:
    if node.is_op("Gather"):
        return _decide_table(node, context)
    family = ops.get(node)
    if family is None or not is_computed_in_float(node, context):
        return None
    product = ops.product(node)
    if product is None:
        return _decide_other(node, family, context)
    weight = node.input(product.weight_input)
    reason = reason_to_leave(node, context)
    if reason is not None or weight is None:
        return reason or MISSING_OPERAND
    found = _obstacle(node, product, weight, context, goal) or _granularity(node, product, weight, context, goal)
    if isinstance(found, Reason):
        return found
    granularity, note = found
    return (UseClaim(node, product.weight_input, weight, "weight", granularity, f"weight of {node.op_type}{note}"),)


def _decide_other(node: NodeView, family: QuantizableOp, context: PlacementContext) -> Decision:
    """Return why recurrent layers and foreign products, whose weights get no pair, stay float; None for other nodes."""
    if family.stays_float is None or family.on_request:
        return None
    return reason_to_leave(node, context)


def _decide_table(node: NodeView, context: PlacementContext) -> Decision:
    table = node.input(0)
    if table is None or not context.is_constant(table) or not context.is_float(table):
        return None
    if len(context.shape(table) or ()) != 2:
        return None
    return context.selection.refusal(node) or _LOOKUP_TABLE


def _obstacle(
    node: NodeView, product: ProductOp, weight: Value, context: PlacementContext, goal: WeightGoal
) -> Reason | None:
    """Return why a product stays float regardless of the shape of its weight, or None if it may be quantized."""
    if not context.is_constant(weight):
        return _without_weight(node.input(product.activation_inputs[0]), weight, context)
    if not goal.mode.packs(product):
        return Reason("no-kernel", f"no kernel takes {goal.mode.weights} weights of {node.op_type}")
    if comes_dequantized(weight):
        return QUANTIZED_ALREADY
    return context.type_obstacle(weight) or not_computable(weight, context)


def _without_weight(left: Value | None, weight: Value, context: PlacementContext) -> Reason:
    if left is not None and context.is_constant(left):
        text = "its constant is the left operand, but kernels take a quantized weight only as the right operand"
        return Reason("constant-operand", text)
    if weight.is_input and weight.scope.is_function:
        return function_argument(weight)
    return Reason("no-weight", "it multiplies two activations: there is no weight to quantize")


def _granularity(
    node: NodeView, product: ProductOp, weight: Value, context: PlacementContext, goal: WeightGoal
) -> tuple[Granularity, str] | Reason:
    """Return the granularity of the scales with a note for the report, or why no granularity fits."""
    shape = static_shape(context.shape(weight))
    if shape is None:
        return Reason("unknown-shape", f"the shape of its weight '{weight.name}' is unknown")
    if len(shape) < 2:
        return Reason("vector-weight", "its weight is a vector")
    if goal.block_size is None:
        channel = product.weight_axis(node, len(shape))
        return (PerTensor() if channel is None else PerAxis(channel)), ""
    axis = product.reduction_axis(node, len(shape))
    assert axis is not None
    extent = shape[axis]
    size = fitting_block(extent, goal.block_size, context.target)
    if size is None:
        text = f"its {extent} input channels do not divide into two or more blocks of {SMALLEST_BLOCK} or more"
        return Reason("no-whole-blocks", text)
    return Blocked(axis, size), "" if size == goal.block_size else f"; {extent} input channels need blocks of {size}"


def fitting_block(extent: int, asked: int, target: Target) -> int | None:
    """Return the block size for an axis: the requested size, halved until it divides the extent.

    TensorRT refuses a shorter last block. If a single block spans the axis, TensorRT dequantizes the weight in a
    separate kernel (measured with TensorRT for RTX 1.7). Halving keeps powers of two, for which kernels exist.

    Args:
        extent: Number of elements along the reduction axis.
        asked: Block size that the user requested.
        target: The target of the result; a target that accepts a shorter last block gets the requested size.

    Returns:
        The block size, or None if no size of at least :data:`SMALLEST_BLOCK` fits.
    """
    if not target.whole_blocks:
        return asked
    size = asked
    while size >= SMALLEST_BLOCK:
        if extent % size == 0 and extent // size >= 2:
            return size
        size //= 2
    return None
