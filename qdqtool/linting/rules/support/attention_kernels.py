"""Which forms of the Attention operator TensorRT for RTX takes.

Measured with 1.7.1 on the examples of onnx and on 650 models that vary type, rank, mask, heads, lengths and what stands
in front. A single query with at least 4 heads over all batches, and attention of rank 3 without mask, causality, shared
heads, and Cast or DQ in front, are computed as separate layers, in any type. All else needs a fused kernel: float16 or
bfloat16, with heads of 9 to 256 elements.
"""

from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.linting.rules.support.rule_context import RuleContext, Shape
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.view import NodeView

HALF = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16})
FUSED_HEADS = range(9, 257)
LEAST_HEADS = 4
"""A single query is computed as separate layers with that many heads, counted over all batches."""

MASK, PAST_KEY = 3, 4


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an Attention node is refused: what it has, in words that follow "Attention", and what it may have."""

    found: str
    expected: str


def refusal(context: RuleContext, node: NodeView) -> Refusal | None:
    """Return why TensorRT for RTX refuses an Attention node; None where it takes it, or the type is unknown."""
    return _unread(node) or _unequal_heads(context, node) or _no_kernel(context, node)


def _unread(node: NodeView) -> Refusal | None:
    """Return what the parser has no support for."""
    if len(node.proto.output) > 1:
        return Refusal(f"{len(node.proto.output)} outputs", "one output")
    if node.attribute("softcap", 0.0):
        return Refusal("softcap", "no softcap")
    if node.attribute("softmax_precision") is not None:
        return Refusal("softmax_precision", "no softmax_precision")
    if node.input_name(PAST_KEY):
        return Refusal("past keys", "past keys and values joined in front of it")
    if node.input_name(MASK) and node.attribute("is_causal", 0):
        return Refusal("a mask and is_causal", "one of them: a mask that is causal itself")
    return None


def _unequal_heads(context: RuleContext, node: NodeView) -> Refusal | None:
    keys, values = (_last(context.shape(node.input(index))) for index in (1, 2))
    if isinstance(keys, int) and isinstance(values, int) and keys != values:
        return Refusal(f"keys of {keys} elements and values of {values}", "keys and values of one size")
    return None


def _no_kernel(context: RuleContext, node: NodeView) -> Refusal | None:
    made, shape = context.elem_type(node.output()), context.shape(node.input(0))
    if made is None:
        return None
    if shape is not None and len(shape) > 1 and shape[-2] == 1:
        return _one_query(node, shape)
    if shape is not None and len(shape) == 3 and _is_plain(context, node):
        return None
    if made not in HALF:
        return Refusal(f"{kind(made)} output", "float16")
    head = _head(node, shape)
    if head is not None and head not in FUSED_HEADS:
        return Refusal(f"heads of {head} elements", f"heads of {FUSED_HEADS.start} to {FUSED_HEADS.stop - 1}")
    return None


def _one_query(node: NodeView, shape: Shape) -> Refusal | None:
    """Return why a single query is refused; it is computed as separate layers, in any type, or not at all."""
    batch, heads = shape[0], node.attribute("q_num_heads", 0) if len(shape) == 3 else shape[1]
    if not isinstance(batch, int) or not isinstance(heads, int) or batch * heads >= LEAST_HEADS:
        return None
    return Refusal(f"one query of {heads} heads in {batch} batches", f"{LEAST_HEADS} heads over all batches")


def _is_plain(context: RuleContext, node: NodeView) -> bool:
    """Return whether attention of rank 3 is computed as separate layers."""
    if node.attribute("is_causal", 0) or node.input_name(MASK):
        return False
    makers = [value.producer for index in range(3) if (value := node.input(index)) is not None]
    if any(maker is not None and (maker.is_op("Cast") or context.qdq.get(maker) is not None) for maker in makers):
        return False
    return bool(node.attribute("q_num_heads") == node.attribute("kv_num_heads"))


def _head(node: NodeView, shape: Shape | None) -> int | None:
    """Return the number of elements of a head."""
    if not shape or not isinstance(width := shape[-1], int):
        return None
    heads = node.attribute("q_num_heads", 0) if len(shape) == 3 else 1
    return width // heads if heads else None


def _last(shape: Shape | None) -> int | str | None:
    return shape[-1] if shape else None
