"""Carry a plan of a model over to the same model at a higher opset.

The upgrade keeps every tensor of the model with its name, but it may change the readers: Softmax has another meaning
from opset 13 on, so the converter of onnx puts Shape and Flatten in front of it and a Reshape behind it.
"""

from collections.abc import Collection
from dataclasses import replace

from qdqtool.errors import ModelError
from qdqtool.models.graph.index.view import GraphView, NodeView, Use
from qdqtool.models.plan import QuantPlan, ScopePath, Slot, UseRef

_NodeId = tuple[ScopePath, tuple[str, ...]]


def carry_over(plan: QuantPlan, before: GraphView, after: GraphView) -> QuantPlan:
    """Return the plan with the uses of the upgraded model.

    Args:
        plan: A plan for ``before``.
        before: The model for which it was made.
        after: The same model at a higher opset.

    Raises:
        ModelError: Nothing is left that could read the dequantized tensor.
    """
    kept = {(node.scope.path, node.key) for node in before.nodes()}
    placements = (replace(place, slot=_carried(place.slot, before, after, kept)) for place in plan)
    return QuantPlan(tuple(placements))


def _carried(slot: Slot, before: GraphView, after: GraphView, kept: Collection[_NodeId]) -> Slot:
    """Return the slot with the uses of nodes that replace a reader, or were inserted in front of it."""
    now = {_ref(use): use for use in _uses(slot, after)}
    if slot.uses is None or all(ref in now for ref in slot.uses):
        return slot
    known = {_ref(use) for use in _uses(slot, before)}
    changed = {(ref.scope, ref.node) for ref in slot.uses if ref not in now}
    added = (ref for ref, use in now.items() if ref not in known and _leads_to(use.node, changed, kept))
    uses = (*(ref for ref in slot.uses if ref in now), *added)
    if not uses:
        raise ModelError(
            f"tensor '{slot.tensor}' has no reader any more once the opset is raised to {after.main.opset}",
            hint=f"export the model again with opset {after.main.opset} or later",
        )
    return replace(slot, uses=uses)


def _leads_to(node: NodeView, targets: Collection[_NodeId], kept: Collection[_NodeId]) -> bool:
    """Return whether ``node`` is one of ``targets``, or reaches one through nodes that the upgrade has added."""
    waiting, seen = [node], set[_NodeId]()
    while waiting:
        here = waiting.pop()
        found = (here.scope.path, here.key)
        if found in targets:
            return True
        if found not in kept and found not in seen:
            seen.add(found)
            outputs = (here.output(index) for index in range(len(here.proto.output)))
            waiting.extend(use.node for output in outputs if output is not None for use in output.uses)
    return False


def _uses(slot: Slot, view: GraphView) -> list[Use]:
    value = view.scope(slot.scope).values.get(slot.tensor)
    return value.uses if value is not None else []


def _ref(use: Use) -> UseRef:
    return UseRef(use.node.scope.path, use.node.key, use.index)
