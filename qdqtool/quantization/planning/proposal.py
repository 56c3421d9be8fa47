"""Propose the pairs of a prepared model for a recipe."""

from collections.abc import Sequence
from dataclasses import replace

from qdqtool.errors import UsageError
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.transforms.strip import strip_from
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.existing import Existing
from qdqtool.quantization.planning.existing_pairs import only_float_layers
from qdqtool.quantization.planning.placement import (
    FOR_ACCURACY,
    IN_FALLBACK,
    PlacementProposal,
    ProposedSlot,
    SkippedNode,
    WeightGoal,
    propose,
    propose_weights,
)
from qdqtool.quantization.planning.recipe import Recipe

NEVER_RUN = (
    "it was never computed on the calibration data: its branch or loop body did not run, it had no elements, or "
    "nothing can read it"
)


NOT_GIVEN = "the given file has no range for it"


def propose_for(index: ModelIndex, recipe: Recipe) -> PlacementProposal:
    """Propose the pairs of a prepared model; of one whose Q/DQ stay, for the layers that are still float."""
    proposal = _propose(index, recipe)
    if recipe.existing is not Existing.KEEP or not index.qdq.nodes:
        return proposal
    twin = ModelIndex.of(strip_from(index.model).model)
    return only_float_layers(proposal, index, _propose(twin, recipe))


def _propose(index: ModelIndex, recipe: Recipe) -> PlacementProposal:
    """Propose the pairs of a model, those of layers in the fallback format included."""
    proposal, chosen = _propose_mode(index, recipe), recipe.selection.fallback_nodes
    if not chosen:
        return proposal
    order = {(node.scope.path, node.key): number for number, node in enumerate(index.view.nodes())}
    finer = _propose_mode(index, recipe.in_fallback(frozenset(order) - chosen))
    slots = (*proposal.slots, *(replace(slot, reason=f"{slot.reason}, {IN_FALLBACK.text}") for slot in finer.slots))
    skipped = (*proposal.skipped, *(node for node in finer.skipped if node.reason is not FOR_ACCURACY))
    return PlacementProposal(
        tuple(sorted(slots, key=lambda slot: min(order[use.scope, use.node] for use in slot.uses))),
        tuple(node for node in skipped if node.reason is not IN_FALLBACK),
    )


def _propose_mode(index: ModelIndex, recipe: Recipe) -> PlacementProposal:
    mode, target = recipe.mode, targets.get(recipe.target)
    if not mode.needs_ranges:
        goal = WeightGoal(mode, mode.block_size(recipe.block_size))
        return propose_weights(index, target, recipe.selection, goal)
    proposal = propose(index, target, recipe.selection, mode.activation_format)
    slots = (replace(slot, scheme=_scheme(slot, mode)) for slot in proposal.slots)
    return replace(proposal, slots=tuple(slots))


def _scheme(slot: ProposedSlot, mode: modes.Mode) -> QuantScheme:
    fmt = mode.weight_format if slot.kind == "weight" else mode.activation_format
    return replace(slot.scheme, format=fmt)


def refuse_nothing(slots: Sequence[ProposedSlot], skipped: Sequence[SkippedNode]) -> None:
    """Raise unless there is something to quantize.

    Raises:
        UsageError: There is nothing; the message has the first reason, preferably of an operator that could gain.
    """
    if slots:
        return
    if not skipped:
        raise UsageError("nothing can be quantized: the model has no operator that gains from it")
    first = min(skipped, key=lambda node: node.reason.on_request)
    more = f" (and {len(skipped) - 1} more {'node' if len(skipped) == 2 else 'nodes'})" if len(skipped) > 1 else ""
    raise UsageError(f"nothing is left to quantize: '{first.node}' ({first.op_type}): {first.reason.text}{more}")
