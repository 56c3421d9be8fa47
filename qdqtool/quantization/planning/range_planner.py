"""Plan from proposed slots and ranges: derive the scales of activations and weights."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import GraphView, NodeView, Value
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics.derive import SCALE_RANGE, ScaleRule, scale_from_range, scale_from_tensor
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.groups import ranges as group_ranges
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning.degenerate import degenerate_scales, degenerate_values
from qdqtool.quantization.planning.existing_pairs import NEVER_RUN, NOT_GIVEN, propose_for, refuse_nothing
from qdqtool.quantization.planning.high_precision import as_stored, rule_for
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.placement import ProposedSlot, Reason, SkippedNode
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.target_fit import require_targets
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.activation_ranges import RangeChoice, bound_threshold, largest_members
from qdqtool.quantization.ranges.method_choice import chosen_method, threshold
from qdqtool.quantization.ranges.types import Ranges, TensorRange
from qdqtool.quantization.report import DegenerateTensor


def share_scales(
    entries: Sequence[ProposedSlot], placements: Iterable[Placement], size: Callable[[int], float]
) -> tuple[Placement, ...]:
    """Return the placements; within a group, all get the parameters of the member with the largest range.

    Args:
        entries: The slots, in the order of the placements.
        placements: The placement of each slot with its own parameters; per-tensor in a group.
        size: Takes the number of a slot in a group, and returns the largest magnitude of its range. The scale does not
            show this magnitude, because it is 1 if all values are 0.
    """
    found = list(placements)
    leaders = largest_members([entry.range_group for entry in entries], size)
    return tuple(
        placement if leader == number else replace(placement, params=found[leader].params)
        for number, (leader, placement) in enumerate(zip(leaders, found, strict=True))
    )


@dataclass(frozen=True, slots=True)
class RangePlanner:
    """Makes plans from ranges of activations and from weights.

    Attributes:
        recipe: What to quantize.
        ranges: The ranges that calibration found.
        weights: Parameters of weights that are already known, because they depend on no range.
    """

    recipe: Recipe
    ranges: Ranges
    weights: Mapping[Slot, QuantParams] = field(default_factory=dict)

    def activations(self, index: ModelIndex, proposed: Sequence[ProposedSlot]) -> tuple[Placement, ...]:
        """Return only the pairs of activations that have ranges.

        Args:
            index: The prepared model.
            proposed: The slots of :func:`propose_for`. They do not depend on ranges, so that several ranges can be
            tried.
        """
        slots, _ = _without_unseen(proposed, self.ranges, index.view)
        params = _Params(index, self.recipe, self.ranges, self.weights)
        return params.placements([entry for entry in slots if entry.kind == "activation"])

    def plan(self, index: ModelIndex) -> Planned:
        """Return the plan of a prepared model."""
        proposal = propose_for(index, self.recipe)
        slots, lost = _without_unseen(proposal.slots, self.ranges, index.view)
        skipped = proposal.skipped + lost
        refuse_nothing(slots, skipped)
        params = _Params(index, self.recipe, self.ranges, self.weights)
        plan = QuantPlan(params.placements(slots))
        require_targets(plan, index, [self.recipe.target])
        return Planned(plan=plan, skipped=skipped, degenerate=tuple(params.degenerate), choices=tuple(params.choices))


class _Params:
    """Derives the parameters of slots, one slot at a time."""

    def __init__(self, index: ModelIndex, recipe: Recipe, ranges: Ranges, weights: Mapping[Slot, QuantParams]) -> None:
        self._index = index
        self._recipe = recipe
        self._method = chosen_method(ranges.record, recipe.method)
        self._ranges = ranges
        self._weights = weights
        self.degenerate: list[DegenerateTensor] = []
        self.choices: list[RangeChoice] = []

    def placements(self, slots: Sequence[ProposedSlot]) -> tuple[Placement, ...]:
        found = (Placement(slot.slot, self.of(slot, self._index.value(slot.slot)), slot.reason) for slot in slots)
        made, chosen = tuple(found), {choice.slot: choice.own for choice in self.choices}
        return share_scales(slots, made, lambda number: chosen[slots[number].slot].amax)

    def of(self, entry: ProposedSlot, value: Value) -> QuantParams:
        """Return the parameters of a pair: largest magnitude / largest value of the format, in the tensor's type."""
        if entry.kind == "weight":
            known = self._weights.get(entry.slot) if entry.range_group is None else None
            return self._of_weight(entry, value) if known is None else known
        seen = self._ranges.tensors.get((entry.slot.scope, entry.slot.tensor))
        if seen is None:
            raise UsageError(
                f"the ranges have no tensor '{value.qualified_name}', which is to be quantized",
                hint="calibrate with the same options: they decide which tensors have ranges",
            )
        return self._of_activation(entry, value, seen)

    def _of_activation(self, entry: ProposedSlot, value: Value, seen: TensorRange) -> QuantParams:
        goal = replace(self._recipe.goal(entry.scheme.format), peaked=entry.peaked)
        found = threshold(self._method, seen, goal, automatic=self._recipe.method == calibrators.DEFAULT)
        own = found if entry.bound is None else bound_threshold(entry.bound)
        self.choices.append(RangeChoice(entry.slot, seen, goal, own, entry.range_group))
        amax = np.asarray(own.amax)
        rule = self._rule(value)
        self.degenerate += degenerate_values(entry, seen, found)
        self.degenerate += degenerate_scales(entry, amax, rule)
        return as_stored(scale_from_range(-amax, amax, entry.scheme, rule), self._elem_type(value))

    def _of_weight(self, entry: ProposedSlot, value: Value) -> QuantParams:
        weights, rule = finite_weights(self._index.constant(value), value), self._rule(value)
        low, high = group_ranges(weights, entry.scheme.granularity)
        amax = np.maximum(np.abs(low), np.abs(high))
        if _loses_scales(amax / entry.scheme.format.high, SCALE_RANGE[rule.dtype][0]):
            rule = rule_for(self._elem_type(value), HighPrecision.FP32)
        self.degenerate += degenerate_scales(entry, amax, rule)
        return as_stored(scale_from_tensor(weights, entry.scheme, rule), self._elem_type(value))

    def _rule(self, value: Value) -> ScaleRule:
        return rule_for(self._elem_type(value), self._recipe.high_precision)

    def _elem_type(self, value: Value) -> int:
        elem_type = self._index.types.elem_type(value)
        assert elem_type is not None
        return elem_type


MOST_LOSS_DB = 1.0
"""A weight keeps float32 scales, with a Cast behind its DQ, if scales of half precision give it so much more error."""


def _loses_scales(scales: Array, smallest: float) -> bool:
    """Return whether raising scales to the smallest one of a type makes much more error (their squares)."""
    wanted = np.square(scales[scales > 0], dtype=np.float64)
    return bool(np.sum(np.maximum(wanted, smallest**2)) > 10 ** (MOST_LOSS_DB / 10) * np.sum(wanted))


def finite_weights(weights: Array | None, value: Value) -> Array:
    """Return the values of a weight; raise if they are unknown or not finite.

    Raises:
        UsageError: The weight cannot be read, or has NaN or infinities.
    """
    if weights is None or not np.isfinite(weights).all():
        problem = "cannot be read" if weights is None else "has NaN or infinities"
        raise UsageError(f"weight '{value.qualified_name}' {problem}", hint="exclude the nodes that use it")
    return weights


def _without_unseen(
    slots: Sequence[ProposedSlot], ranges: Ranges, view: GraphView
) -> tuple[list[ProposedSlot], tuple[SkippedNode, ...]]:
    """Return the slots of nodes that read no unseen tensor, and the other nodes with the reason."""
    # A node that reads an unseen tensor loses its other pairs too: with one quantized operand it would gain nothing.
    unseen = dict.fromkeys(ranges.unseen(), NEVER_RUN if ranges.record.samples else NOT_GIVEN)
    nodes = {(node.scope.path, node.key): node for node in view.nodes()}

    def readers(use: UseRef) -> set[NodeView]:
        return set(ops.computing_nodes(nodes[use.scope, use.node]))

    lost: dict[NodeView, Reason] = {}
    for entry in slots:
        why = unseen.get((entry.slot.scope, entry.slot.tensor))
        if why is not None:
            reason = Reason("no-range", f"input '{entry.slot.tensor}': {why}")
            lost.update({reader: reason for use in entry.uses for reader in readers(use)})
    kept: list[ProposedSlot] = []
    for entry in slots:
        uses = tuple(use for use in entry.uses if not readers(use) <= set(lost))
        if uses:
            kept.append(replace(entry, slot=replace(entry.slot, uses=uses)))
    return kept, tuple(SkippedNode.of(node, lost[node]) for node in view.nodes() if node in lost)
