"""Propose the pairs of a model for a recipe; of one with Q/DQ, for the float layers alone, or for all anew."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qdqtool.errors import UsageError
from qdqtool.models import ops, targets
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, Notes, read_metadata
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath, display
from qdqtool.models.report import InlinedFunction
from qdqtool.models.transforms.inline_functions import inline_repeated
from qdqtool.models.transforms.strip import strip_from
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.options import Existing, Preparation
from qdqtool.quantization.planning.placement import (
    FOR_ACCURACY,
    IN_FALLBACK,
    PlacementProposal,
    ProposedSlot,
    Reason,
    SkippedNode,
    WeightGoal,
    propose,
    propose_weights,
)
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.calibration_note import decode_note

UNPREPARED = Preparation(equalize=False, smoothquant=None, bias_correction=False, awq=False, float_layer=False)

_Node = tuple[ScopePath, NodeKey]


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model that may have had Q/DQ nodes, ready to be quantized.

    Attributes:
        model: The model that is quantized.
        recipe: The recipe for it.
        existing: What became of the Q/DQ that it had; None where it had none.
        inlined: The local functions that were inlined, so that each call gets scales of its own.
    """

    model: Model
    recipe: Recipe
    existing: Existing | None = None
    inlined: tuple[InlinedFunction, ...] = ()


def settle_model(source: Model, recipe: Recipe) -> ResolvedModel:
    """Return the model that is quantized, and the recipe for it: Q/DQ as :func:`settle_existing`, functions inlined.

    A local function that is called more than once is inlined where activations in it are to be quantized: its ranges
    differ from call to call.
    """
    settled = settle_existing(source, recipe)
    if not recipe.mode.needs_ranges or not settled.model.proto.functions:
        return settled
    inlined = inline_repeated(settled.model, lambda node: ops.product(node) is not None)
    return replace(settled, model=inlined.model, inlined=inlined.report)


def settle_existing(source: Model, recipe: Recipe) -> ResolvedModel:
    """Return the model that is quantized, and the recipe for it.

    A model whose Q/DQ stay is not prepared: preparing it would change what its pairs were made for.

    Raises:
        UsageError: The model has Q/DQ nodes and the recipe does not say what becomes of them, or they cannot be taken
            out.
    """
    count = len(ModelIndex.of(source).qdq.nodes)
    if not count:
        return ResolvedModel(source, recipe)
    if recipe.existing is Existing.KEEP:
        return ResolvedModel(source, replace(recipe, preparation=UNPREPARED), Existing.KEEP)
    if recipe.existing is Existing.REFUSE:
        raise UsageError(
            f"the model is quantized already: it has {count} Q/DQ nodes",
            hint="`--existing keep` quantizes only what is float in it, `--existing replace` takes its Q/DQ out first, "
            "and `qdqtool strip MODEL -o OUT.onnx` writes the float model",
        )
    stripped = strip_from(source)
    lost = (*stripped.report.warnings, *(f"{kept.node} stays: {kept.reason}" for kept in stripped.report.kept))
    if lost:
        raise UsageError(
            f"the Q/DQ of the model cannot be replaced: {lost[0]}", hint="`--existing keep`, or another source model"
        )
    return ResolvedModel(stripped.model, recipe, Existing.REPLACE)


def existing_hint(existing: Existing | None) -> str:
    """Return what can be done about faults of Q/DQ that stay, to be added to a hint; empty where none stay."""
    return "; `--existing replace` quantizes the whole model anew" if existing is Existing.KEEP else ""


def notes_beside(model: Model, notes: Notes) -> Notes:
    """Return the notes to write into a model whose Q/DQ stay: what its own notes say of these stays true.

    Random calibration data is noted whichever pairs it made.
    """
    return {
        key: value
        for key, value in notes.items()
        if read_metadata(model, key) is None or (key == CALIBRATION_KEY and _is_random(value))
    }


def _is_random(value: str | None) -> bool:
    note = decode_note(value) if value is not None else None
    return note is not None and note.random


def only_float_layers(proposal: PlacementProposal, index: ModelIndex, twin: PlacementProposal) -> PlacementProposal:
    """Keep from a proposal only the layers that would also be quantized if the model had no Q/DQ yet.

    Without this, quantizing a model again would quantize layers that stayed float for a reason that is seen only with
    the whole model, such as too few channels.
    """
    gains = {(use.scope, use.node) for entry in twin.slots for use in entry.uses}
    # Without its DQ, the node in front of a Q may make a graph output: it then has the name of the output.
    pairs = ((pair.quantize.node.input_name(0), pair.dequantize.node) for pair in index.qdq.pairs)
    names = {made: name for name, dequantize in pairs for made in dequantize.proto.output}
    gains |= {(scope, tuple(names.get(name, name) for name in node)) for scope, node in gains}
    slots: list[ProposedSlot] = []
    dropped: set[_Node] = set()
    for entry in proposal.slots:
        uses = tuple(use for use in entry.uses if (use.scope, use.node) in gains)
        dropped |= {(use.scope, use.node) for use in entry.uses} - gains
        if uses:
            slots.append(replace(entry, slot=replace(entry.slot, uses=uses)))
    reasons = {(skipped.graph, skipped.node): skipped.reason for skipped in twin.skipped}
    skipped = [
        SkippedNode.of(node, reasons.get((display(node.scope.path), node.label), UNSEEN))
        for node in index.view.nodes()
        if (node.scope.path, node.key) in dropped
    ]
    return PlacementProposal(tuple(slots), (*proposal.skipped, *skipped))


UNSEEN = Reason("no-gain", "it would stay float in the model without Q/DQ")


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
    secondary = _propose_mode(index, recipe.in_fallback(frozenset(order) - chosen))
    slots = (*proposal.slots, *(replace(slot, reason=f"{slot.reason}, {IN_FALLBACK.text}") for slot in secondary.slots))
    skipped = (*proposal.skipped, *(node for node in secondary.skipped if node.reason is not FOR_ACCURACY))
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
