"""Planning with ranges of another tool, and with the scales that its file has for constants."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from qdqtool.graph.index.view import GraphView
from qdqtool.numerics.derive import round_scale
from qdqtool.numerics.scheme import QuantParams
from qdqtool.plan import Placement, QuantPlan
from qdqtool.planning.degenerate import DegenerateTensor
from qdqtool.planning.given_ranges import Given, GivenReport, WeightKey
from qdqtool.planning.given_scales import Fitted
from qdqtool.planning.placement import SkippedNode
from qdqtool.planning.range_planner import Planner
from qdqtool.planning.recipe import Recipe
from qdqtool.planning.scale_type import round_given
from qdqtool.planning.weight_planner import WeightPlanner


class GivenPlanner:
    """Plans with given ranges, and with given scales of constants where they fit.

    Args:
        recipe: What is to be quantized.
        given: What another tool found.

    Attributes:
        made: The last plan.
    """

    def __init__(self, recipe: Recipe, given: Given) -> None:
        self._recipe = recipe
        self._base = WeightPlanner(recipe) if recipe.mode.weight_only else Planner(recipe, given.ranges)
        self._scales: Mapping[WeightKey, Fitted] = given.scales
        self._given, self._taken = given.report, 0
        self.made = QuantPlan(())

    @property
    def report(self) -> GivenReport:
        """What became of the file, in the last plan."""
        return replace(self._given, weights=self._taken)

    @property
    def skipped(self) -> tuple[SkippedNode, ...]:
        """Quantizable nodes that the last plan leaves in float."""
        return self._base.skipped

    @property
    def degenerate(self) -> tuple[DegenerateTensor, ...]:
        """Tensors and weights that no scale serves well."""
        return self._base.degenerate

    def plan(self, view: GraphView) -> QuantPlan:
        """The plan of a float model.

        Raises:
            UsageError: As the planners of ranges and of weights.
        """
        proposed = self._base.plan(view)
        self.made = QuantPlan(tuple(self._with_given_scale(placement) for placement in proposed))
        self._taken = sum(new is not old for new, old in zip(self.made, proposed, strict=True))
        return self.made

    def _with_given_scale(self, placement: Placement) -> Placement:
        slot, params = placement.slot, placement.params
        fitted = self._scales.get(((slot.scope, slot.tensor), str(params.scheme)))
        if fitted is None:
            return placement
        granularity, scales = fitted
        dtype = params.scale.dtype
        stored = round_given(round_scale(np.array(scales), dtype), dtype, self._recipe.high_precision)
        scheme = replace(params.scheme, granularity=granularity)
        return replace(placement, params=QuantParams(scheme, stored), codes=None)
