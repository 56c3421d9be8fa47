"""The plan of a weight-only mode: scales from the weights alone."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qdqtool import targets
from qdqtool.data import Feeds
from qdqtool.data.feeds import Progress
from qdqtool.errors import ArgumentError, UsageError
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import GraphView, Value
from qdqtool.numerics import search
from qdqtool.numerics.derive import ScaleRule, scale_from_range
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.gptq import round_weights
from qdqtool.numerics.granularity import Blocked
from qdqtool.numerics.groups import ranges as group_ranges
from qdqtool.numerics.packing import pack
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.plan import Placement, QuantPlan, ScopePath
from qdqtool.planning.degenerate import DegenerateTensor, degenerate_scales
from qdqtool.planning.input_moments import InputMoments
from qdqtool.planning.placement import ProposedSlot, SkippedNode
from qdqtool.planning.proposal import propose_for, refuse_nothing
from qdqtool.planning.recipe import Recipe
from qdqtool.planning.scale_type import as_stored, rule_for
from qdqtool.planning.target_fit import require_targets


@dataclass(frozen=True, slots=True, eq=False)
class _Derived:
    """Scales of one weight, and the largest magnitude under each."""

    params: QuantParams
    amax: Array
    rule: ScaleRule
    codes: bytes | None = None


@dataclass(slots=True)
class WeightPlanner:
    """Makes the plan of one model, and remembers the last one with what could not be done as asked.

    Weights are read once, one at a time, even where the plan is made again for a higher opset.

    Attributes:
        recipe: What is to be quantized, in a weight-only mode.
        data: Samples to round by: codes of few bits are then chosen so that products change little (GPTQ). None to
            round to the nearest.
        progress: Told of every sample.
        stored: Whether weights are stored as codes: only then may block scales be negative, where the target allows.
        made: The last plan.
        skipped: Products and tables that it leaves in float.
        degenerate: Weights that no scale serves well.
    """

    recipe: Recipe
    data: Feeds | None = None
    progress: Progress | None = None
    stored: bool = True
    made: QuantPlan = field(default_factory=lambda: QuantPlan(()))
    skipped: tuple[SkippedNode, ...] = ()
    degenerate: tuple[DegenerateTensor, ...] = ()
    _known: dict[tuple[ScopePath, str, str], _Derived] = field(default_factory=dict)

    def plan(self, view: GraphView) -> QuantPlan:
        """The plan of a float model.

        Raises:
            UsageError: Nothing can be quantized, a weight is not finite or cannot be read, or the target does not take
                the result.
        """
        index = ModelIndex.of(view)
        proposal = propose_for(index, self.recipe)
        refuse_nothing(proposal.slots, proposal.skipped)
        if self.data is not None and self.recipe.mode.search and not self._known:
            self._round_by_data(view, proposal.slots, index, self.data)
        placements: list[Placement] = []
        degenerate: list[DegenerateTensor] = []
        for entry in proposal.slots:
            found = self._derive(entry, view.scope(entry.slot.scope).values[entry.slot.tensor], index)
            placements.append(Placement(entry.slot, found.params, _reason(entry, found), found.codes))
            degenerate += degenerate_scales(entry, found.amax, found.rule)
        self.made, self.skipped, self.degenerate = QuantPlan(tuple(placements)), proposal.skipped, tuple(degenerate)
        require_targets(self.made, view, index.types, [self.recipe.target])
        return self.made

    def _round_by_data(self, view: GraphView, slots: Sequence[ProposedSlot], index: ModelIndex, data: Feeds) -> None:
        """Choose the codes of every matrix whose inputs can be observed."""
        entries = {view.scope(entry.slot.scope).values[entry.slot.tensor]: entry for entry in slots}
        channels = {
            value: shape[entry.scheme.granularity.axis]
            for value, entry in entries.items()
            if isinstance(entry.scheme.granularity, Blocked) and len(shape := _shape(value, index)) == 2
        }
        for value, moments in InputMoments(index, data, self.progress).of(channels):
            entry = entries[value]
            found, weights = self._derive(entry, value, index), index.constant(value)
            assert weights is not None
            codes = round_weights(weights, found.params, moments)
            self._known[_key(entry)] = replace(found, codes=pack(codes, entry.scheme.format).tobytes())

    def _derive(self, entry: ProposedSlot, value: Value, index: ModelIndex) -> _Derived:
        key = _key(entry)
        if key not in self._known:
            weights = index.constant(value)
            if weights is None:
                raise UsageError(
                    f"weight '{value.qualified_name}' cannot be read", hint="exclude the nodes that use it"
                )
            try:
                elem_type = index.types.elem_type(value)
                assert elem_type is not None
                self._known[key] = self._scales(weights, entry.scheme, elem_type)
            except ArgumentError:
                raise UsageError(
                    f"weight '{value.qualified_name}' has NaN or infinities", hint="exclude the nodes that use it"
                ) from None
        return self._known[key]

    def _scales(self, weights: Array, scheme: QuantScheme, elem_type: int) -> _Derived:
        taken = scheme.format.name in targets.get(self.recipe.target).negative_scale_types
        rule = replace(rule_for(elem_type, self.recipe.high_precision), either_sign=self.stored and taken)
        if self.recipe.mode.search and search.supports(scheme):
            params, amax = search.least_error(weights, scheme, rule)
            return _Derived(as_stored(params, elem_type), amax, rule)
        if not np.isfinite(weights).all():
            raise ArgumentError("a value is NaN or infinite")
        low, high = group_ranges(weights, scheme.granularity)
        params = as_stored(scale_from_range(low, high, scheme, rule), elem_type)
        return _Derived(params, np.maximum(-low, high), rule)


def _key(entry: ProposedSlot) -> tuple[ScopePath, str, str]:
    return entry.slot.scope, entry.slot.tensor, str(entry.scheme)


def _shape(value: Value, index: ModelIndex) -> tuple[int, ...]:
    """Extents of a constant, stored or made of stored ones; nothing where they are not known."""
    stored = index.constants.direct(value)
    if stored is not None:
        return tuple(stored.dims)
    shape = index.types.shape(value) or ()
    known = tuple(dim for dim in shape if isinstance(dim, int))
    return known if len(known) == len(shape) else ()


def _reason(entry: ProposedSlot, found: _Derived) -> str:
    return entry.reason if found.codes is None else f"{entry.reason}; rounded by the calibration data"
