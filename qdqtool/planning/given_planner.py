"""Planning with ranges of another tool, and with the scales that its file has for constants."""

from dataclasses import dataclass, replace

import numpy as np

from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.numerics.derive import round_scale
from qdqtool.numerics.scheme import QuantParams
from qdqtool.plan import Placement, QuantPlan
from qdqtool.planning.given_ranges import Given
from qdqtool.planning.planner import Planned
from qdqtool.planning.range_planner import RangePlanner
from qdqtool.planning.recipe import Recipe
from qdqtool.planning.scale_type import round_given
from qdqtool.planning.weight_planner import WeightPlanner


@dataclass(frozen=True, slots=True)
class GivenPlanner:
    """Makes plans from given ranges, and from given scales of constants where they fit.

    Attributes:
        recipe: What is to be quantized.
        given: What another tool found.
    """

    recipe: Recipe
    given: Given

    def plan(self, index: ModelIndex) -> Planned:
        """The plan of a float model.

        Raises:
            UsageError: As the planners of ranges and of weights.
        """
        base = (
            WeightPlanner(self.recipe) if self.recipe.mode.weight_only else RangePlanner(self.recipe, self.given.ranges)
        )
        found = base.plan(index)
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
        stored = round_given(round_scale(np.array(scales), dtype), dtype, self.recipe.high_precision)
        scheme = replace(params.scheme, granularity=granularity)
        return replace(placement, params=QuantParams(scheme, stored), codes=None)
