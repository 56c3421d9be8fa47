"""Propose the pairs of a model for a recipe; Q/DQ that the model already has are kept, or removed first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from qdqtool.errors import UsageError
from qdqtool.models import ops, targets
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.metadata import CALIBRATION_KEY, Notes, read_metadata, with_plugins
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.scope import ScopePath, display
from qdqtool.models.report import InlinedFunction
from qdqtool.models.running.custom_operators import without_functions
from qdqtool.models.running.custom_types import with_known_types
from qdqtool.models.transforms.inline_functions import inline_repeated
from qdqtool.models.transforms.strip import strip_from
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.high_precision import resolved
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
        model: The model to quantize.
        recipe: The recipe for that model.
        existing: How the Q/DQ of the source were handled; None if the source had none.
        inlined: The local functions that were inlined, so that each call has its own scales.
    """

    model: Model
    recipe: Recipe
    existing: Existing | None = None
    inlined: tuple[InlinedFunction, ...] = ()


def settle_model(source: Model, recipe: Recipe) -> ResolvedModel:
    """Return the model to quantize and its recipe: existing Q/DQ are handled, and repeated functions inlined.

    The model has a note of the plugin operators. The recipe has the type of float nodes that ``auto`` means for it.

    A local function that is called more than once is inlined if its activations are to be quantized: their ranges
    differ from call to call.
    """
    plain = without_functions(with_plugins(source, recipe.plugin_ops))
    settled = replace(settle_existing(plain.model, recipe), inlined=plain.report)
    settled = replace(settled, recipe=resolved(settled.model, settled.recipe))
    if recipe.mode.needs_ranges and settled.model.proto.functions:
        inlined = inline_repeated(settled.model, lambda node: ops.product(node) is not None)
        settled = replace(settled, model=inlined.model, inlined=(*settled.inlined, *inlined.report))
    return replace(settled, model=with_known_types(settled.model))


def settle_existing(source: Model, recipe: Recipe) -> ResolvedModel:
    """Return the model to quantize, and the recipe for it.

    A model that keeps its Q/DQ is not prepared: preparation would change the values for which its pairs were made.

    Raises:
        UsageError: The model has Q/DQ nodes, and the recipe does not say how to handle them, or they cannot be removed.
    """
    count = len(ModelIndex.of(source).qdq.nodes)
    if not count:
        return ResolvedModel(source, recipe)
    if recipe.existing is Existing.KEEP:
        return ResolvedModel(source, replace(recipe, preparation=UNPREPARED), Existing.KEEP)
    if recipe.existing is Existing.REFUSE:
        raise UsageError(
            f"the model is quantized already: it has {count} Q/DQ nodes",
            hint="`--existing keep` quantizes only the float nodes, `--existing replace` removes the Q/DQ first, "
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
    """Return the end of a hint about faults of kept Q/DQ; empty if no Q/DQ are kept."""
    return "; `--existing replace` quantizes the whole model again" if existing is Existing.KEEP else ""


def notes_beside(model: Model, notes: Notes) -> Notes:
    """Return the notes to add to a model that keeps its Q/DQ; notes that the model already has remain true.

    The note about random calibration data is always added, even if the data made only some of the pairs.
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

    Otherwise a second quantization would quantize layers that stayed float for reasons that Q/DQ nodes hide, such as
    few channels.
    """
    gains = {(use.scope, use.node) for entry in twin.slots for use in entry.uses}
    # Without its DQ, the node before a Q may make a graph output; it then has the name of that output.
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
    """Propose the pairs of a prepared model; if the model keeps its Q/DQ, only for layers that are still float."""
    proposal = _propose(index, recipe)
    if recipe.existing is not Existing.KEEP or not index.qdq.nodes:
        return proposal
    twin = ModelIndex.of(strip_from(index.model).model)
    return only_float_layers(proposal, index, _propose(twin, recipe))


def _propose(index: ModelIndex, recipe: Recipe) -> PlacementProposal:
    """Propose the pairs of a model, including pairs of layers in the secondary format."""
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
    """Check that there is something to quantize.

    Raises:
        UsageError: Nothing can be quantized; the message has a reason, preferably of an operator that could gain, or
            one with a command.
    """
    if slots:
        return
    if not skipped:
        raise UsageError("nothing can be quantized: no operator of the model gains from quantization")
    first = min(skipped, key=lambda node: (node.reason.on_request, "`" not in node.reason.text))
    more = f" (and {len(skipped) - 1} more {'node' if len(skipped) == 2 else 'nodes'})" if len(skipped) > 1 else ""
    raise UsageError(f"nothing is left to quantize: '{first.node}' ({first.op_type}): {first.reason.text}{more}")
