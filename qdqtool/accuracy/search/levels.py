"""Plans in which layers have different formats: the pairs of some nodes left out, and those of another plan put in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from qdqtool.accuracy.layers.costs import FormatBits
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.scope import display
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.models.targets import type_name
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.placement import FOR_ACCURACY, NodeId, SkippedNode
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.scale_type import HighPrecision


def ids_of(nodes: Iterable[NodeView]) -> frozenset[NodeId]:
    """Return the nodes as a selection names them."""
    return frozenset((node.scope.path, node.key) for node in nodes)


def with_levels(recipe: Recipe, left: frozenset[NodeId], finer: frozenset[NodeId]) -> Recipe:
    """Return the recipe that leaves some nodes in float and gives others the fallback format."""
    return replace(recipe, selection=replace(recipe.selection, float_nodes=left, fallback_nodes=finer))


def bits_of(recipe: Recipe, plan: QuantPlan, index: ModelIndex) -> FormatBits:
    """Return the bits of weights at each level of a recipe with a fallback format.

    Args:
        recipe: The recipe.
        plan: A plan that was made with it.
        index: Of the model that the plan was made for.
    """
    assert recipe.fallback is not None
    finer = modes.get(modes.fallback(recipe.quantize_mode, recipe.fallback))
    types = (type_name(index.types.elem_type(index.value(placement.slot)) or 0) for placement in plan)
    half = recipe.high_precision is HighPrecision.FP16 or all("16" in each for each in types)
    return FormatBits(
        quantized=recipe.mode.weight_format.bits,
        fallback=finer.weight_format.bits,
        unquantized=16 if half else 32,
        activations=recipe.mode.needs_ranges,
    )


def without(planned: Planned, index: ModelIndex, left: frozenset[NodeId], finer: frozenset[NodeId]) -> Planned:
    """Return a plan of weights without the pairs that only some nodes read.

    Args:
        planned: The plan.
        index: Of the model that it was made for.
        left: Nodes that stay in float: they are skipped, with the reason.
        finer: Nodes that get the pairs of another plan.
    """
    nodes = {(node.scope.path, node.key): node for node in index.view.nodes()}

    def is_gone(use: UseRef) -> bool:
        # A weight may reach its product through a Transpose.
        return any(
            (node.scope.path, node.key) in left | finer for node in ops.computing_nodes(nodes[use.scope, use.node])
        )

    slots = ((placement, _kept(placement.slot, is_gone)) for placement in planned.plan)
    plan = QuantPlan(tuple(replace(placement, slot=slot) for placement, slot in slots if slot is not None))
    skipped = tuple(
        SkippedNode(node.label, node.op_type, display(node.scope.path), FOR_ACCURACY)
        for node in index.view.nodes()
        if (node.scope.path, node.key) in left
    )
    return replace(planned, plan=plan, skipped=planned.skipped + skipped)


def _kept(slot: Slot, is_gone: Callable[[UseRef], bool]) -> Slot | None:
    if slot.uses is None:
        return slot
    uses = tuple(use for use in slot.uses if not is_gone(use))
    return replace(slot, uses=uses) if uses else None


def joined(one: Planned, other: Planned, index: ModelIndex) -> Planned:
    """Return the pairs of two plans for different nodes of one model, in the order of the nodes.

    Args:
        one: A plan, with the nodes that it skips.
        other: A plan for some nodes, which skips all others for the accuracy.
        index: Of the model that both were made for.
    """
    order = {(node.scope.path, node.key): number for number, node in enumerate(index.view.nodes())}

    def place(placement: Placement) -> int:
        return min((order[use.scope, use.node] for use in placement.slot.uses or ()), default=0)

    return replace(
        one,
        plan=QuantPlan(tuple(sorted((*one.plan, *other.plan), key=place))),
        skipped=one.skipped + tuple(node for node in other.skipped if node.reason is not FOR_ACCURACY),
        degenerate=one.degenerate + other.degenerate,
    )
