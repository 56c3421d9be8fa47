"""Add: the skip branch of a residual block gets a pair, so that the Conv in front takes up the Add.

The branch that comes straight from a Conv gets none: a pair there would stand between the Conv and the Add that is
fused into it. Where the skip branch is the tensor that the block's first Conv reads, it shares that Conv's pair.
"""

from collections.abc import Collection

from qdqtool.graph.view import NodeView, Value
from qdqtool.numerics.granularity import PerTensor
from qdqtool.ops import by_op_type
from qdqtool.pipeline.placement.claims import Claim, Decision, Skip
from qdqtool.pipeline.placement.facts import Facts
from qdqtool.pipeline.placement.masks import adds_mask, carries_mask, feeds_softmax


def decide_add(node: NodeView, facts: Facts, quantized: Collection[NodeView]) -> Decision:
    """A claim on the skip input of a residual Add, or why the Add stays float.

    Args:
        node: The Add.
        facts: The model.
        quantized: The weighted nodes that are quantized.
    """
    left, right = node.input(0), node.input(1)
    if left is None or right is None:
        return Skip("an operand is missing")
    if not (facts.is_float(left) and facts.is_float(right)):
        return None
    if (facts.is_constant(left) or facts.is_constant(right)) and not adds_mask(node, facts):
        return None  # a bias
    obstacle = _obstacle(node, facts)
    skip = Skip(obstacle) if obstacle is not None else _skip_input(node, quantized)
    return skip if isinstance(skip, Skip) else _claim_skip(node, skip, facts)


def _obstacle(node: NodeView, facts: Facts) -> str | None:
    if adds_mask(node, facts):
        return "it adds an attention mask: beside minus infinity, one scale rounds every score to 0"
    if feeds_softmax(node):
        return "it makes the scores of a Softmax, which may be masked and are read in float"
    return None


def _claim_skip(node: NodeView, index: int, facts: Facts) -> Decision:
    value, other = node.input(index), node.input(1 - index)
    assert value is not None
    assert other is not None
    shapes = facts.shape(value), facts.shape(other)
    if None not in shapes and shapes[0] != shapes[1]:
        return Skip("its inputs have different shapes: it is no residual branch")
    if carries_mask(value, facts):
        return Skip(f"'{value.name}' carries an attention mask, which one scale would not survive")
    obstacle = facts.obstacle(value)
    if obstacle is not None:
        return Skip(obstacle)
    return (Claim(node, index, value, "activation", PerTensor(), "skip input of a residual Add"),)


def _skip_input(node: NodeView, quantized: Collection[NodeView]) -> int | Skip:
    """Index of the skip branch."""
    convs = {index: conv for index in (0, 1) if (conv := _conv_in_front(node, index)) is not None}
    if not convs:
        return Skip("neither input comes straight from a Conv that nothing else reads: there is nothing to fuse with")
    joined = [index for index, conv in convs.items() if conv in quantized]
    if not joined:
        return Skip("the Conv that it joins stays float")
    if len(joined) == 2:
        deeper = max(joined, key=lambda index: _depth(node.input(index)))
        return 1 - deeper
    return 1 - joined[0]


def _conv_in_front(node: NodeView, index: int) -> NodeView | None:
    value = node.input(index)
    if value is None or value.producer is None or value.is_output or len(value.uses) != 1:
        return None
    return value.producer if value.producer.is_op("Conv") else None


def _depth(value: Value | None) -> int:
    """How many weighted operators lie on the longest way from the inputs of the scope to ``value``."""
    if value is None:
        return 0
    depths: dict[str, int] = {}
    for node in value.scope.nodes:
        family = by_op_type().get(node.op_type)
        own = int(family is not None and family.weighted)
        deepest = max((depths.get(name, 0) for name in node.proto.input), default=0) + own
        depths.update(dict.fromkeys(filter(None, node.proto.output), deepest))
    return depths.get(value.name, 0)
