"""Plan weights, and choose the planner that fits the available data.

TensorRT for RTX joins products of the same activation. If two such groups share weights with a DQ, its builder fails
with an internal error (int4, nvfp4) or a segmentation fault (int8); rule QT415 finds such models.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qdqtool.models import ops, targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import Use, Value
from qdqtool.models.plan import Placement, QuantPlan, Slot, UseRef
from qdqtool.numerics import search
from qdqtool.numerics.cores import ahead
from qdqtool.numerics.derive import round_scale, scale_from_range
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.groups import ranges as group_ranges
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning.degenerate import degenerate_scales
from qdqtool.quantization.planning.existing_pairs import propose_for, refuse_nothing
from qdqtool.quantization.planning.given_ranges import GivenRanges
from qdqtool.quantization.planning.high_precision import as_stored, round_given, rule_for
from qdqtool.quantization.planning.options import HighPrecision
from qdqtool.quantization.planning.placement import ProposedSlot
from qdqtool.quantization.planning.planner import Planned, Planner
from qdqtool.quantization.planning.range_planner import RangePlanner, finite_weights
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.target_fit import require_targets
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.quantization.report import DegenerateTensor
from qdqtool.quantization.statistics.data_rounding import DataRounding, DerivedScales
from qdqtool.samples.feeds import Feeds, Progress


def separated(slots: Sequence[Slot], index: ModelIndex) -> Mapping[Slot, tuple[Slot, ...]]:
    """Return, for each slot of a weight, the slots that replace it: one for each activation that needs a separate DQ.

    Args:
        slots: The weights to quantize, each with the uses that read it dequantized.
        index: The index of the model.
    """
    readers = {slot: _by_activation(slot, index) for slot in slots}
    beside = Counter(each for found in readers.values() for each, uses in found.items() for _ in uses)
    return {slot: _parts(slot, found, beside) for slot, found in readers.items()}


def _parts(slot: Slot, found: Mapping[Value | None, list[UseRef]], beside: Counter[Value | None]) -> tuple[Slot, ...]:
    groups = [activation for activation in found if activation is not None and beside[activation] > 1]
    if len(groups) < 2:
        return (slot,)
    own = [tuple(found[activation]) for activation in groups[1:]]
    shared = tuple(use for use in slot.uses or () if not any(use in uses for uses in own))
    return tuple(replace(slot, uses=uses) for uses in (shared, *own))


def _by_activation(slot: Slot, index: ModelIndex) -> dict[Value | None, list[UseRef]]:
    """Return the uses of a weight, grouped by the activation that it is multiplied with (None outside products)."""
    found: dict[Value | None, list[UseRef]] = defaultdict(list)
    for use in index.value(slot).uses:
        reference = UseRef(use.node.scope.path, use.node.key, use.index)
        if slot.uses is None or reference in slot.uses:
            found[_activation(use)].append(reference)
    return found


def _activation(use: Use) -> Value | None:
    node = next(ops.computing_nodes(use.node), None)
    product = ops.product(node) if node is not None else None
    return node.input(product.activation_inputs[0]) if node is not None and product is not None else None


WEIGHTS_AHEAD = 2
"""Number of weights whose scales are computed ahead, while the plan records the scales of another weight."""


@dataclass(frozen=True, slots=True, eq=False)
class _PlannedWeight:
    """A weight that needs scales: its known scales, or its values to derive them from."""

    entry: ProposedSlot
    known: DerivedScales | None
    array: Array | None


@dataclass(frozen=True, slots=True)
class WeightPlanner:
    """Makes plans for weights. Each weight is read once; a few are in memory at a time.

    Attributes:
        recipe: What to quantize; the mode is weight-only.
        data: Samples for rounding: low-bit codes are then chosen so that products change little (GPTQ). None to round
            to the nearest codes.
        progress: Called after each sample, with the number of finished samples and of all samples.
        stored: Whether weights are stored as codes: only then may block scales be negative, if the target allows it.
    """

    recipe: Recipe
    data: Feeds | None = None
    progress: Progress | None = None
    stored: bool = True

    def plan(self, index: ModelIndex) -> Planned:
        """Return the plan of a float model."""
        proposal = propose_for(index, self.recipe)
        refuse_nothing(proposal.slots, proposal.skipped)
        rounded = self._rounded_by_data(proposal.slots, index)
        slots = self._slots(proposal.slots, index)
        placements: list[Placement] = []
        degenerate: list[DegenerateTensor] = []
        for entry, found in zip(proposal.slots, self._all_derived(proposal.slots, rounded, index), strict=True):
            reason = entry.reason if found.codes is None else f"{entry.reason}; codes chosen with the calibration data"
            placements += [Placement(slot, found.params, reason, found.codes) for slot in slots[entry.slot]]
            degenerate += degenerate_scales(entry, found.amax, found.rule)
        plan = QuantPlan(tuple(placements))
        require_targets(plan, index, [self.recipe.target])
        return Planned(plan=plan, skipped=proposal.skipped, degenerate=tuple(degenerate))

    def _all_derived(
        self, slots: Sequence[ProposedSlot], rounded: Mapping[Slot, DerivedScales], index: ModelIndex
    ) -> Iterator[DerivedScales]:
        """Yield the scales of each weight; the scales of the next weights are computed meanwhile."""

        def weights() -> Iterator[_PlannedWeight]:
            for entry in slots:
                known = rounded.get(entry.slot)
                yield _PlannedWeight(entry, known, index.constant(index.value(entry.slot)) if known is None else None)

        return ahead(
            lambda weight: weight.known or self._derive(weight.entry, weight.array, index), weights(), WEIGHTS_AHEAD
        )

    def _slots(self, entries: Sequence[ProposedSlot], index: ModelIndex) -> Mapping[Slot, tuple[Slot, ...]]:
        """Return the slots that replace each proposed slot."""
        if targets.get(self.recipe.target).family == "tensorrt":
            return separated([entry.slot for entry in entries], index)
        return {entry.slot: (entry.slot,) for entry in entries}

    def _rounded_by_data(self, slots: Sequence[ProposedSlot], index: ModelIndex) -> dict[Slot, DerivedScales]:
        """Return the codes of matrices that are rounded with data: those with observed inputs. Empty without data."""
        # Codes are not chosen for weights that are stored as float before a Q: the Q rounds them to the nearest codes.
        entries = {entry.slot: entry for entry in slots if self.stored and self._is_searched(entry.scheme)}
        if self.data is None or not entries:
            return {}

        def derive(slot: Slot, weights: Array) -> DerivedScales:
            return self._derive(entries[slot], weights, index)

        schemes = {slot: entry.scheme for slot, entry in entries.items()}
        return DataRounding(index, self.data, derive, self.progress).of(schemes)

    def _is_searched(self, scheme: QuantScheme) -> bool:
        """Return whether scales of least error are searched; only some modes do this, for their weight format."""
        return self.recipe.mode.search and scheme.format == self.recipe.mode.weight_format

    def _derive(self, entry: ProposedSlot, weights: Array | None, index: ModelIndex) -> DerivedScales:
        value, scheme = index.value(entry.slot), entry.scheme
        weights = finite_weights(weights, value)
        elem_type = index.types.elem_type(value)
        assert elem_type is not None
        taken = scheme.format.name in targets.get(self.recipe.target).negative_scale_types
        rule = replace(rule_for(elem_type, self.recipe.high_precision), either_sign=self.stored and taken)
        if self._is_searched(scheme):
            params, amax = search.least_error(weights, scheme, rule)
            return DerivedScales(as_stored(params, elem_type), amax, rule)
        low, high = group_ranges(weights, scheme.granularity)
        params = as_stored(scale_from_range(low, high, scheme, rule), elem_type)
        return DerivedScales(params, np.maximum(-low, high), rule)


@dataclass(frozen=True, slots=True)
class GivenPlanner:
    """Makes plans from given ranges, and from given scales of constants if they fit."""

    base: Planner
    given: GivenRanges
    high_precision: HighPrecision

    def plan(self, index: ModelIndex) -> Planned:
        """Return the plan of a float model."""
        found = self.base.plan(index)
        placements = tuple(self._with_given_scale(placement) for placement in found.plan)
        taken = sum(new is not old for new, old in zip(placements, found.plan, strict=True))
        return replace(found, plan=QuantPlan(placements), given=replace(self.given.report, weights=taken))

    def _with_given_scale(self, placement: Placement) -> Placement:
        slot, params = placement.slot, placement.params
        fitted = self.given.scales.get(((slot.scope, slot.tensor), str(params.scheme)))
        if fitted is None:
            return placement
        granularity, scales = fitted
        dtype = params.scale.dtype
        stored = round_given(round_scale(np.array(scales), dtype), dtype, self.high_precision)
        scheme = replace(params.scheme, granularity=granularity)
        return replace(placement, params=QuantParams(scheme, stored), codes=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanData:
    """The data from which a plan is made, besides the model.

    Attributes:
        ranges: Ranges of activations; None in a mode that does not need them.
        given: Results of another tool, used instead of ranges; None if there are none.
        feeds: Samples for rounding weights, in a mode that uses them; None to round to the nearest codes.
        progress: Called after each of these samples, with the number of finished samples and of all samples.
        stored: Whether weights are stored as codes.
        weights: Parameters of weights from another plan for the model that differs only in activation ranges.
    """

    ranges: Ranges | None = None
    given: GivenRanges | None = None
    feeds: Feeds | None = None
    progress: Progress | None = None
    stored: bool = True
    weights: Mapping[Slot, QuantParams] = field(default_factory=dict)


def planner_for(recipe: Recipe, data: PlanData) -> Planner:
    """Return the planner for a recipe and the data."""
    if data.given is not None:
        base = planner_for(recipe, PlanData(ranges=data.given.ranges, stored=data.stored))
        return GivenPlanner(base, data.given, recipe.high_precision)
    if recipe.mode.needs_ranges:
        assert data.ranges is not None
        return RangePlanner(recipe, data.ranges, data.weights)
    return WeightPlanner(recipe, data.feeds, data.progress, data.stored)
