"""Choose the planner, by the data that there is to plan with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.plan import Placement, QuantPlan, Slot
from qdqtool.numerics.derive import round_scale
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning.given_ranges import GivenRanges
from qdqtool.quantization.planning.planner import Planned, Planner
from qdqtool.quantization.planning.range_planner import RangePlanner
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.scale_type import HighPrecision, round_given
from qdqtool.quantization.planning.weight_planner import WeightPlanner
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.samples import Feeds
from qdqtool.samples.feeds import Progress


@dataclass(frozen=True, slots=True)
class GivenPlanner:
    """Makes plans from given ranges, and from given scales of constants where they fit.

    Attributes:
        base: The planner that derives all other scales.
        given: The ranges and scales of the other tool.
        high_precision: The type of float nodes in the written model.
    """

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
        ranges: Ranges of activations; None in a mode that needs none.
        given: The results of another tool, in place of ranges; None where none are used.
        feeds: Samples for rounding weights, in a mode that needs them; None to round to the nearest.
        progress: Told of every such sample.
        stored: Whether weights are stored as codes.
        weights: Parameters of weights that another plan for the same model has, with other ranges of activations.
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
        base = _planner(recipe, PlanData(ranges=data.given.ranges, stored=data.stored))
        return GivenPlanner(base, data.given, recipe.high_precision)
    return _planner(recipe, data)


def _planner(recipe: Recipe, data: PlanData) -> Planner:
    if recipe.mode.needs_ranges:
        assert data.ranges is not None
        return RangePlanner(recipe, data.ranges, data.weights)
    return WeightPlanner(recipe, data.feeds, data.progress, data.stored)
