"""The plan of a weight-only mode: scales from the weights alone."""

from dataclasses import dataclass, field

import numpy as np
import onnx

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.graph.view import GraphView, Value
from qdqtool.numerics import search
from qdqtool.numerics.derive import ScaleRule, scale_from_range
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.groups import ranges as group_ranges
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.pipeline._degenerate import DegenerateTensor, degenerate_scales
from qdqtool.pipeline._observe import Facts
from qdqtool.pipeline.calibrate import Recipe, propose_for, refuse_nothing
from qdqtool.pipeline.placement import ProposedSlot, SkippedNode
from qdqtool.pipeline.target_fit import require_targets
from qdqtool.plan import Placement, QuantPlan, ScopePath


@dataclass(frozen=True, slots=True, eq=False)
class _Derived:
    """Scales of one weight, and the largest magnitude under each."""

    params: QuantParams
    amax: Array
    rule: ScaleRule


@dataclass(slots=True)
class WeightPlanner:
    """Makes the plan of one model, and remembers the last one with what could not be done as asked.

    Weights are read once, one at a time, even where the plan is made again for a higher opset.

    Attributes:
        recipe: What is to be quantized, in a weight-only mode.
        made: The last plan.
        skipped: Products and tables that it leaves in float.
        degenerate: Weights that no scale serves well.
    """

    recipe: Recipe
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
        facts = Facts.of(view)
        proposal = propose_for(facts, self.recipe)
        refuse_nothing(proposal.slots, proposal.skipped)
        placements: list[Placement] = []
        degenerate: list[DegenerateTensor] = []
        for entry in proposal.slots:
            found = self._derive(entry, view.scope(entry.slot.scope).values[entry.slot.tensor], facts)
            placements.append(Placement(entry.slot, found.params, entry.reason))
            degenerate += degenerate_scales(entry, found.amax, found.rule)
        self.made, self.skipped, self.degenerate = QuantPlan(tuple(placements)), proposal.skipped, tuple(degenerate)
        require_targets(self.made, view, facts.types, [self.recipe.target])
        return self.made

    def _derive(self, entry: ProposedSlot, value: Value, facts: Facts) -> _Derived:
        key = (entry.slot.scope, entry.slot.tensor, str(entry.scheme))
        if key not in self._known:
            weights = facts.constant(value)
            if weights is None:
                raise UsageError(
                    f"weight '{value.qualified_name}' cannot be read", hint="exclude the nodes that use it"
                )
            try:
                self._known[key] = self._scales(weights, entry.scheme, _rule(value, facts))
            except ArgumentError:
                raise UsageError(
                    f"weight '{value.qualified_name}' has NaN or infinities", hint="exclude the nodes that use it"
                ) from None
        return self._known[key]

    def _scales(self, weights: Array, scheme: QuantScheme, rule: ScaleRule) -> _Derived:
        if self.recipe.unit.search and search.supports(scheme):
            return _Derived(*search.least_error(weights, scheme, rule), rule)
        if not np.isfinite(weights).all():
            raise ArgumentError("a value is NaN or infinite")
        low, high = group_ranges(weights, scheme.granularity)
        return _Derived(scale_from_range(low, high, scheme, rule), np.maximum(-low, high), rule)


def _rule(value: Value, facts: Facts) -> ScaleRule:
    elem_type = facts.types.elem_type(value)
    assert elem_type is not None
    return ScaleRule(dtype=np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elem_type)), narrow_range=True)
