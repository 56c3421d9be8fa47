"""Apply a plan to a model, for `insert` and `quantize`.

Raising the opset keeps every tensor of the model and its name, but may change which nodes read it. Softmax, for
example, has another meaning from opset 13 on: the converter of onnx adds Shape and Flatten before it and a Reshape
after it.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from qdqtool.errors import ModelError
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Use
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.graph.scope import ScopePath, display
from qdqtool.models.options import WeightStorage
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.models.transforms.opset import upgrade_opset
from qdqtool.numerics.granularity import Blocked, PerAxis
from qdqtool.quantization.insertion.pair_edits import PlacementEdits
from qdqtool.quantization.report import QuantizedTensor

_NodeId = tuple[ScopePath, tuple[str, ...]]


def carry_over(plan: QuantPlan, before: GraphView, after: GraphView) -> QuantPlan:
    """Return a plan for a model with the tensor uses of the same model at a higher opset."""
    kept = {(node.scope.path, node.key) for node in before.nodes()}
    placements = (replace(place, slot=_carried(place.slot, before, after, kept)) for place in plan)
    return QuantPlan(tuple(placements))


def _carried(slot: Slot, before: GraphView, after: GraphView, kept: Collection[_NodeId]) -> Slot:
    """Return the slot with the uses by nodes that replace a reader, or that the upgrade put in front of it."""
    now = {_ref(use): use for use in _uses(slot, after)}
    if slot.uses is None or all(ref in now for ref in slot.uses):
        return slot
    known = {_ref(use) for use in _uses(slot, before)}
    changed = {(ref.scope, ref.node) for ref in slot.uses if ref not in now}
    added = (ref for ref, use in now.items() if ref not in known and _leads_to(use.node, changed, kept))
    uses = (*(ref for ref in slot.uses if ref in now), *added)
    if not uses:
        raise ModelError(
            f"no node reads tensor '{slot.tensor}' after the opset is raised to {after.main.opset}",
            hint=f"export the model again with opset {after.main.opset} or later",
        )
    return replace(slot, uses=uses)


def _leads_to(node: NodeView, targets: Collection[_NodeId], kept: Collection[_NodeId]) -> bool:
    """Return whether ``node`` is one of ``targets``, or leads to one through nodes that the upgrade added."""
    waiting, seen = [node], set[_NodeId]()
    while waiting:
        here = waiting.pop()
        found = (here.scope.path, here.key)
        if found in targets:
            return True
        if found not in kept and found not in seen:
            seen.add(found)
            waiting.extend(use.node for output in here.present_outputs for use in output.uses)
    return False


def _uses(slot: Slot, view: GraphView) -> list[Use]:
    value = view.scope(slot.scope).values.get(slot.tensor)
    return value.uses if value is not None else []


def _ref(use: Use) -> UseRef:
    return UseRef(use.node.scope.path, use.node.key, use.index)


OPSET_WITH_AXIS = 13
OPSET_WITH_BLOCKS = 21
OPSET_WITH_HALF_SCALES = 19
OPSET_WITH_Q_TYPE = 21
"""The first opset in which a Q without zero point has an attribute for its output type (``output_dtype``)."""
OPSET_WITH_DQ_TYPE = 23
"""The first opset in which a DQ has an attribute for its output type, if its scale has another type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPairs:
    """A model with the pairs of a plan, and the names of their tensors.

    Attributes:
        model: The model.
        dequantized: Scope and name of the dequantized tensor of each pair, in the order of the plan.
        pairs: Description of each pair, in the same order.
    """

    model: Model
    dequantized: tuple[tuple[ScopePath, str], ...]
    pairs: tuple[QuantizedTensor, ...]


def apply_plan(
    source: Model, plan: QuantPlan, weights: WeightStorage = WeightStorage.PACKED
) -> Transformed[tuple[QuantizedTensor, ...]]:
    """Insert the pairs of a plan into a model in memory; raise opset and IR version only as far as needed.

    Args:
        source: The model that the plan was made for; it is not changed.
        plan: The pairs.
        weights: How quantized constants are stored.

    Returns:
        The quantized model, with a description of every inserted pair, in the order of the plan.
    """
    placed = place_pairs(source, plan, weights)
    return Transformed(placed.model, placed.pairs)


def place_pairs(source: Model, plan: QuantPlan, weights: WeightStorage = WeightStorage.PACKED) -> PlacedPairs:
    """Insert the pairs of a plan and return where they are; arguments and errors are those of :func:`apply_plan`."""
    index = ModelIndex.of(source.fork())
    missing = [needed for place in plan if (needed := needed_opset(place)) > index.value(place.slot).scope.opset]
    if missing:
        raised = ModelIndex.of(upgrade_opset(index.model, max(missing)).model)
        plan, index = carry_over(plan, index.view, raised.view), raised
    builder = PlacementEdits(index, weights)
    builder.add_plan(plan)
    labels = {(node.scope.path, node.key): node.label for node in index.view.nodes()}
    return PlacedPairs(
        model=apply_edits(index.model, builder.edits),
        dequantized=tuple((placement.slot.scope, builder.dequantized[placement]) for placement in plan),
        pairs=tuple(_describe(placement, builder, labels) for placement in plan),
    )


def needed_opset(placement: Placement) -> int:
    """Return the lowest default-domain opset in which a placement is legal ONNX."""
    scheme, scale = placement.params.scheme, placement.params.scale
    needs = [scheme.format.first_opset.quantize or 1]
    if isinstance(scheme.granularity, PerAxis):
        needs.append(OPSET_WITH_AXIS)
    if isinstance(scheme.granularity, Blocked):
        needs.append(OPSET_WITH_BLOCKS)
    if scale.dtype.itemsize == 2:
        needs.append(OPSET_WITH_HALF_SCALES)
    if scheme.scale_scheme is not None:
        first = scheme.scale_scheme.format.first_opset
        needs += [OPSET_WITH_Q_TYPE, first.scale or first.dequantize or 1]
    outer = placement.params.scale_params
    if outer is not None and outer.scale.dtype != scale.dtype:
        needs.append(OPSET_WITH_DQ_TYPE)
    return max(needs)


def _describe(
    placement: Placement, builder: PlacementEdits, labels: dict[tuple[ScopePath, tuple[str, ...]], str]
) -> QuantizedTensor:
    slot, params = placement.slot, placement.params
    value = builder.index.value(slot)
    if slot.uses is None:
        readers = [use.node.label for use in value.uses]
    else:
        readers = [labels[use.scope, use.node] for use in slot.uses]
    constant = builder.index.constants.is_constant(value)
    return QuantizedTensor(
        tensor=slot.tensor,
        graph=display(slot.scope),
        kind="weight" if constant else "activation",
        format=params.scheme.format.name,
        granularity=str(params.scheme.granularity),
        scales=int(params.scale.size),
        scale_min=float(params.scale.astype("float64").min()),
        scale_max=float(params.scale.astype("float64").max()),
        consumers=tuple(dict.fromkeys(readers)),
        reason=placement.reason,
    )
