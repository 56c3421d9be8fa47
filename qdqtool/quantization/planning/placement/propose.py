"""Place pairs of activations and weights: on every input of products, and on the skip branch of residual blocks.

A pair is placed on the tensor that the next weighted operator reads. That tensor comes after Conv, BatchNormalization,
bias and activation function, and never between them, because they are fused into the Conv. Operators that only move
values need no pairs. All other operators compute in float, and a pair before them would only round.

TensorRT moves the Q after a Concat to its inputs. If another product also reads an input of the Concat quantized, as in
a U-Net, this tensor has two Q nodes. With two scales it is written as codes and as float; with one scale it is written
as codes only. One scale needs no further pair. It is not the default, because the largest range of the group gives the
scale of all, and tensors with smaller ranges lose resolution.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_dequantized
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning.placement.context import (
    MISSING_OPERAND,
    Decision,
    PlacementContext,
    UseClaim,
    share_slots,
)
from qdqtool.quantization.planning.placement.masks import with_bound
from qdqtool.quantization.planning.placement.proposal import (
    PlacementProposal,
    ProposedSlot,
    Reason,
    Selection,
    SkippedNode,
    on_request,
)
from qdqtool.quantization.planning.placement.residual import Residuals
from qdqtool.quantization.planning.placement.weighted import decide_weighted, leave_tiny


@dataclass(slots=True)
class _JoinedGroups:
    """Groups of tensors with one scale, as a union-find forest: each tensor points to another tensor of its group."""

    parents: dict[Value, Value] = field(default_factory=dict)

    def first(self, value: Value) -> Value:
        while (parent := self.parents.setdefault(value, value)) is not value:
            value = parent
        return value

    def join(self, left: Value, right: Value) -> None:
        self.parents[self.first(left)] = self.first(right)


def share_ranges(
    slots: Sequence[ProposedSlot], concats: Sequence[NodeView], index: ModelIndex
) -> tuple[tuple[ProposedSlot, ...], frozenset[NodeView]]:
    """Group the slots around Concats that will have one scale.

    Args:
        slots: The proposed slots.
        concats: The Concats that the user named, in the order of the graph.
        index: The index of the model.

    Returns:
        The slots, with group numbers, and the Concats around which no slots could share a scale.
    """
    activations = ((at, slot) for at, slot in enumerate(slots) if slot.kind == "activation" and slot.bound is None)
    origins = {at: origin(index.value(slot.slot)) for at, slot in activations}
    groups, wanted = _JoinedGroups(), set(origins.values())
    joined = list(_joined(concats, groups, wanted))
    members: dict[Value, list[int]] = {}
    for at, value in origins.items():
        members.setdefault(groups.first(value), []).append(at)
    around = {groups.first(output) for _, output in joined}
    shared = {value: places for value, places in members.items() if value in around and len(places) > 1}
    number = {at: first for first, places in enumerate(shared.values()) for at in places}
    result = tuple(replace(slot, range_group=number.get(at)) for at, slot in enumerate(slots))
    sharing = {node for node, output in joined if groups.first(output) in shared}
    return result, frozenset(node for node in concats if node not in sharing)


def origin(value: Value) -> Value:
    """Return the tensor from which ``value`` is produced by operators that only move or select values."""
    *_, first = ops.moved_from(value)
    return first


def reads_codes(value: Value | None) -> bool:
    """Return whether a tensor comes from a DQ, directly or through Casts and operators that only move values."""
    while value is not None:
        value = origin(value)
        if is_dequantized(value):
            return True
        value = value.producer.input(0) if value.producer is not None and value.producer.is_op("Cast") else None
    return False


def quantized_products(index: ModelIndex) -> list[NodeView]:
    """Return the products of a model that read a DQ."""
    products = ((node, product) for node in index.view.nodes() if (product := ops.product(node)) is not None)
    return [
        node for node, product in products if any(reads_codes(node.input(at)) for at in product.quantized_inputs(node))
    ]


def _joined(concats: Sequence[NodeView], groups: _JoinedGroups, wanted: set[Value]) -> Iterator[tuple[NodeView, Value]]:
    """Join inputs and output of each Concat whose output is quantized, directly or after another such Concat."""
    for node in reversed(concats):
        output = node.output()
        if output is None or output not in wanted:
            continue
        for value in node.present_inputs:
            groups.join(origin(value), output)
            wanted.add(origin(value))
        yield node, output


INT8 = formats.get("int8")
NOTHING_TO_SHARE = Reason(
    "nothing-to-share", "no other node reads its inputs quantized: the pair on its output is enough"
)


def propose(
    index: ModelIndex, target: Target, selection: Selection, number_format: NumberFormat = INT8
) -> PlacementProposal:
    """Place Q/DQ pairs in a float model: symmetric, activations per-tensor, weights per output channel.

    Args:
        index: The index of the model; BatchNormalization should be folded already.
        target: The target of the result.
        selection: The nodes that the user wants quantized.
        number_format: The format of activations and weights; for some layers only int8 kernels exist.

    Returns:
        The slots, and every operator that could be quantized but is not, with the reason.
    """
    selection.matches(index.view)
    context = PlacementContext(index, target, selection)
    candidates = [node for node in index.view.nodes() if ops.get(node) is not None]
    claim = functools.partial(_claim_operands, context=context, number_format=number_format)
    decisions = {node: _decide(node, context, claim) for node in candidates if node.op_type != "Add"}
    leave_tiny(decisions, context)
    residuals = Residuals(context, {node for node, decision in decisions.items() if isinstance(decision, tuple)})
    for node in candidates:
        if node.op_type == "Add":
            decisions[node] = _decide(node, context, residuals.decide)
    ordered = [(node, decisions[node]) for node in candidates]
    scheme = functools.partial(QuantScheme, number_format)
    slots = [with_bound(slot, index) for slot in share_slots(_claims(ordered), scheme)]
    joined = (node for node, decision in ordered if decision is None and node.is_op("Concat"))
    concats = [node for node in joined if is_computed_in_float(node, context)]
    shared, alone = share_ranges(slots, concats, index)
    decisions.update(dict.fromkeys(alone, NOTHING_TO_SHARE))
    for node, decision in ordered:
        if node.is_op("Concat") and isinstance(decision, Reason) and decision.on_request:
            decisions[node] = _with_consumers(node, decision, decisions)
    return PlacementProposal(shared, collect_skipped([(node, decisions[node]) for node in candidates]))


def _with_consumers(node: NodeView, reason: Reason, decisions: Mapping[NodeView, Decision]) -> Reason:
    """Return why a Concat gets no pair, with the consumers that decide it."""
    output = node.output()
    ends = list(dict.fromkeys(_ends(output))) if output is not None else []
    pairs = [end.label for end in ends if isinstance(end, NodeView) and isinstance(decisions.get(end), tuple)]
    floats = [end.label if isinstance(end, NodeView) else f"output '{end.name}'" for end in ends]
    if pairs:
        return on_request(reason.code, f"it only joins tensors: the pair of its consumer {pairs[0]} follows it")
    if floats:
        return on_request(reason.code, f"it only joins tensors, and its consumer {floats[0]} is float")
    return reason


def _ends(value: Value) -> Iterator[NodeView | Value]:
    """Yield the nodes and outputs that a tensor reaches, through operators that only move values."""
    if value.is_output:
        yield value
    for use in value.uses:
        moved = use.node.output() if ops.moves_values(use.node) else None
        yield from (use.node,) if moved is None else _ends(moved)


def _decide(node: NodeView, context: PlacementContext, claim: Callable[[NodeView], Decision]) -> Decision:
    if not is_computed_in_float(node, context):
        return None
    return reason_to_leave(node, context) or _shared_by_calls(node, context) or claim(node)


def _claim_operands(node: NodeView, context: PlacementContext, number_format: NumberFormat) -> Decision:
    if node.is_op("Concat"):
        # TensorRT moves the Q after a Concat to its inputs: a Concat that the user names needs one scale, not a pair.
        return None
    product = ops.product(node)
    return (
        decide_weighted(node, product, context, number_format) if product is not None else _claim_input(node, context)
    )


def reason_to_leave(node: NodeView, context: PlacementContext) -> Reason | None:
    """Return why a quantizable node stays float regardless of its tensors, or None if it may be quantized."""
    refusal = context.selection.refusal(node) or context.plugin(node)
    if refusal is not None:
        return refusal
    if node.is_parametric:
        return Reason(
            "function-argument", "one of its attributes is an argument of the local function; inline the function first"
        )
    family = ops.get(node)
    assert family is not None
    if family.stays_float is None:
        return None
    if not family.on_request:
        return Reason("float-operator", family.stays_float)
    return None if context.selection.asks_for(node) else on_request("no-gain", family.stays_float)


def _shared_by_calls(node: NodeView, context: PlacementContext) -> Reason | None:
    """Return why a node in a function with several calls stays float: its ranges differ from call to call."""
    calls = context.calls(node.scope)
    if calls <= 1:
        return None
    text = f"its local function is called {calls} times, and all calls would share one scale; inline the function"
    return Reason("function-argument", text)


def is_computed_in_float(node: NodeView, context: PlacementContext) -> bool:
    """Return whether a node computes floats at run time: no integers, and no constant that folds."""
    value, output = node.input(0), node.output()
    return (value is None or context.is_float(value)) and not (output is not None and context.is_constant(output))


def _claim_input(node: NodeView, context: PlacementContext) -> Decision:
    value = node.input(0)
    if value is None:
        return MISSING_OPERAND
    if context.is_constant(value):
        return Reason("constant-operand", "its input is constant")
    obstacle = context.obstacle(value)
    if obstacle is not None:
        return obstacle
    return (UseClaim(node, 0, value, "activation", PerTensor(), f"input of {node.op_type}, as requested"),)


def _claims(ordered: list[tuple[NodeView, Decision]]) -> list[UseClaim]:
    return [claim for _, decision in ordered if isinstance(decision, tuple) for claim in decision]


def collect_skipped(ordered: list[tuple[NodeView, Decision]]) -> tuple[SkippedNode, ...]:
    """Return the nodes that stay float, with the reasons."""
    return tuple(SkippedNode.of(node, decision) for node, decision in ordered if isinstance(decision, Reason))
