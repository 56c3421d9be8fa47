"""Place the pair of a residual Add on the skip branch, so that TensorRT fuses the Add into the preceding Conv.

The branch that comes directly from a Conv gets no pair, because the pair would be between the Conv and the Add that is
fused into it. If the first Conv of the block reads the skip branch, both share the pair of that Conv.
"""

from collections.abc import Collection, Mapping

from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import is_dequantized
from qdqtool.models.graph.index.types import may_be_equal
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.graph.scope import ScopePath
from qdqtool.numerics.granularity import PerTensor
from qdqtool.quantization.planning.placement.context import (
    MISSING_OPERAND,
    QUANTIZED_ALREADY,
    Decision,
    PlacementContext,
    UseClaim,
)
from qdqtool.quantization.planning.placement.masks import adds_mask, carried_mask, feeds_softmax
from qdqtool.quantization.planning.placement.proposal import Reason

_NOTHING_TO_FUSE = Reason(
    "nothing-to-fuse",
    "neither input comes directly from a Conv that only this node reads: it cannot be fused with a Conv",
)
# Measured: pairs on the skip branches of transformers cost the sample models 1.0 dB (digits_transformer, 2 layers)
# and 1.7 dB (char_lm, 4 layers).
_SUM_OF_LAYERS = Reason(
    "sum-of-layers",
    "it sums up layers without a Conv: such sums grow with depth, and one scale for them costs accuracy",
)


class Residuals:
    """Decides on the Adds of one model."""

    def __init__(self, context: PlacementContext, quantized: Collection[NodeView]) -> None:
        self._context = context
        self._quantized = quantized
        self._depths: dict[ScopePath, dict[str, int]] = {}

    def decide(self, node: NodeView) -> Decision:
        """Return a claim on the skip input of a residual Add, a reason to stay float, or None for the Add of a bias."""
        context, left, right = self._context, node.input(0), node.input(1)
        if left is None or right is None:
            return MISSING_OPERAND
        if not (context.is_float(left) and context.is_float(right)):
            return None
        if (context.is_constant(left) or context.is_constant(right)) and not adds_mask(node, context):
            return None
        obstacle = _obstacle(node, context)
        skip = obstacle if obstacle is not None else self._skip_input(node)
        return skip if isinstance(skip, Reason) else _claim_skip(node, skip, context)

    def _skip_input(self, node: NodeView) -> int | Reason:
        """Return the index of the skip branch, or why the Add stays float."""
        convs = {index: conv for index in (0, 1) if (conv := _conv_in_front(node, index)) is not None}
        if not convs:
            return _SUM_OF_LAYERS if _joins_a_product(node) else _NOTHING_TO_FUSE
        joined = [index for index, conv in convs.items() if conv in self._quantized]
        if not joined:
            return _without_joined(node, convs)
        # In a downsampling block both inputs come from a Conv. The skip branch is the input after fewer products. With
        # pairs on both inputs, the sums of the Conv would be rounded before the Add.
        if len(joined) == 2:
            deeper = max(joined, key=lambda index: self._depth(node.input(index)))
            return 1 - deeper
        return 1 - joined[0]

    def _depth(self, value: Value | None) -> int:
        """Return the number of weighted operators on the longest path from the inputs of the scope to ``value``."""
        if value is None:
            return 0
        path = value.scope.path
        if path not in self._depths:
            self._depths[path] = _depths(value.scope)
        return self._depths[path].get(value.name, 0)


def _without_joined(node: NodeView, convs: Mapping[int, NodeView]) -> Reason:
    """Return why an Add stays unquantized if no preceding Conv is quantized in this run."""
    quantized = [index for index, conv in convs.items() if _has_pair(conv, 0)]
    if not quantized:
        return Reason("joined-conv-in-float", "the Conv that it joins stays float")
    if any(_has_pair(node, 1 - index) for index in quantized):
        return QUANTIZED_ALREADY
    return Reason(
        "quantized-already", "the Conv that it joins is quantized already; `--existing replace` quantizes both again"
    )


def _has_pair(node: NodeView, index: int) -> bool:
    return is_dequantized(node.input(index))


def _obstacle(node: NodeView, context: PlacementContext) -> Reason | None:
    if adds_mask(node, context):
        return Reason(
            "attention-mask", "it adds an attention mask: beside minus infinity, one scale rounds every score to 0"
        )
    if feeds_softmax(node):
        return Reason("attention-scores", "it makes the scores of a Softmax, which may be masked and are read in float")
    return None


def _claim_skip(node: NodeView, index: int, context: PlacementContext) -> Decision:
    value, other = node.input(index), node.input(1 - index)
    assert value is not None
    assert other is not None
    own, added = context.shape(value), context.shape(other)
    if own is not None and added is not None and not may_be_equal(own, added):
        return Reason("different-shapes", "its inputs have different shapes: it is no residual branch")
    obstacle = carried_mask(value, context) or context.obstacle(value)
    if obstacle is not None:
        return obstacle
    return (UseClaim(node, index, value, "activation", PerTensor(), "skip input of a residual Add"),)


def _conv_in_front(node: NodeView, index: int) -> NodeView | None:
    value = node.input(index)
    if value is None or value.producer is None or value.is_output or len(value.uses) != 1:
        return None
    product = ops.product(value.producer)
    return value.producer if product is not None and product.fuses_add else None


def _joins_a_product(node: NodeView) -> bool:
    """Return whether an input comes from a MatMul or Gemm, directly or through the Add of a bias."""
    makers = [value.producer for index in (0, 1) if (value := node.input(index)) is not None]
    behind = [maker for maker in makers if maker is not None and maker.is_op("Add")]
    makers += [value.producer for add in behind for index in (0, 1) if (value := add.input(index)) is not None]
    products = (ops.product(maker) for maker in makers if maker is not None)
    return any(product is not None and product.is_matrix_product for product in products)


def _depths(scope: Scope) -> dict[str, int]:
    depths: dict[str, int] = {}
    for node in scope.nodes:
        own = int(ops.product(node) is not None)
        deepest = max((depths.get(name, 0) for name in node.proto.input), default=0) + own
        depths.update(dict.fromkeys(filter(None, node.proto.output), deepest))
    return depths
