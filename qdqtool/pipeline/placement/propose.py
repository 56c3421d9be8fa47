"""Where int8 pairs go: on every input of weighted operators, and on the skip branch of residual blocks.

The pair stands on the tensor that the next weighted operator reads: after Conv, BatchNormalization, bias and activation
function, never between them, since those are fused into the Conv. Operators that only move values need no pair of
their own. Everything else computes in float, and a pair in front of it would only round.
"""

from collections.abc import Collection, Mapping

from qdqtool import ops
from qdqtool.graph.constants import Constants
from qdqtool.graph.scope import display
from qdqtool.graph.types import TensorTypes
from qdqtool.graph.view import GraphView, NodeView
from qdqtool.numerics.granularity import PerTensor
from qdqtool.ops import QuantizableOp
from qdqtool.pipeline.placement.claims import Claim, Decision, Skip, share
from qdqtool.pipeline.placement.facts import Facts
from qdqtool.pipeline.placement.proposal import Proposal, SkippedNode
from qdqtool.pipeline.placement.residual import decide_add
from qdqtool.pipeline.placement.selection import Selection
from qdqtool.pipeline.placement.weighted import decide_weighted, leave_tiny
from qdqtool.targets import Target

FLOAT_BY_DEFAULT: Mapping[str, str] = {
    "AveragePool": "TensorRT averages in float",
    "ConvTranspose": "TensorRT for RTX runs it in float whatever its pairs",
    "GlobalAveragePool": "TensorRT averages in float",
}
"""Operators that gain nothing from pairs, and why. Naming one in ``--op-types-to-quantize`` quantizes it."""

_ASK = "name the operator in --op-types-to-quantize to quantize it all the same"


def propose(
    view: GraphView, types: TensorTypes, constants: Constants, target: Target, selection: Selection
) -> Proposal:
    """Where Q/DQ pairs go in a float model, in int8: symmetric, activations per-tensor, weights per output channel.

    Args:
        view: The index of the model; BatchNormalization should be folded already.
        types: Its tensor types.
        constants: Its folded constants.
        target: What the result is for.
        selection: What the user wants quantized.

    Returns:
        The slots, and every operator that could be quantized and is not, with the reason.

    Raises:
        UsageError: A pattern of ``selection`` matches nothing.
    """
    selection.matches(view)
    facts = Facts(view, types, constants, target, selection)
    candidates = [(node, family) for node in view.nodes() if (family := ops.get(node)) is not None]
    decisions = {node: _decide(node, family, facts) for node, family in candidates if node.op_type != "Add"}
    leave_tiny(decisions, facts)
    quantized = {node for node, decision in decisions.items() if isinstance(decision, tuple)}
    for node, _ in candidates:
        if node.op_type == "Add":
            decisions[node] = _decide_add(node, facts, quantized)
    ordered = [(node, decisions[node]) for node, _ in candidates]
    return Proposal(share(_claims(ordered)), _skipped(ordered))


def _decide(node: NodeView, family: QuantizableOp, facts: Facts) -> Decision:
    if family.commutes or not _computes_in_float(node, facts):
        return None
    reason = _reason_to_leave(node, facts)
    if reason is not None:
        return Skip(reason)
    return decide_weighted(node, family, facts) if family.weighted else _claim_input(node, facts)


def _decide_add(node: NodeView, facts: Facts, quantized: Collection[NodeView]) -> Decision:
    if not _computes_in_float(node, facts):
        return None
    reason = _reason_to_leave(node, facts)
    return Skip(reason) if reason is not None else decide_add(node, facts, quantized)


def _reason_to_leave(node: NodeView, facts: Facts) -> str | None:
    """Why a node stays float whatever its tensors are."""
    refusal = facts.selection.refusal(node)
    if refusal is not None:
        return refusal
    if node.is_parametric:
        return "an attribute of it is an argument of the local function; inline the function first"
    if node.op_type == "Concat":
        return "it only joins tensors; a pair would need one scale for all of them"
    if node.op_type in FLOAT_BY_DEFAULT and not facts.selection.asks_for(node):
        return f"{FLOAT_BY_DEFAULT[node.op_type]}; {_ASK}"
    return None


def _computes_in_float(node: NodeView, facts: Facts) -> bool:
    """Whether the question arises: not for integers, and not for what is folded before the network runs."""
    value, output = node.input(0), node.output()
    return (value is None or facts.is_float(value)) and not (output is not None and facts.is_constant(output))


def _claim_input(node: NodeView, facts: Facts) -> Decision:
    value = node.input(0)
    if value is None:
        return Skip("an operand is missing")
    obstacle = "its input is constant" if facts.is_constant(value) else facts.obstacle(value)
    if obstacle is not None:
        return Skip(obstacle)
    return (Claim(node, 0, value, "activation", PerTensor(), f"input of {node.op_type}, as asked"),)


def _claims(ordered: list[tuple[NodeView, Decision]]) -> list[Claim]:
    return [claim for _, decision in ordered if isinstance(decision, tuple) for claim in decision]


def _skipped(ordered: list[tuple[NodeView, Decision]]) -> tuple[SkippedNode, ...]:
    return tuple(
        SkippedNode(node.label, node.op_type, display(node.scope.path), decision.reason)
        for node, decision in ordered
        if isinstance(decision, Skip)
    )
