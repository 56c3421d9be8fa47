"""Plan with the ranges of another tool, and with the scales that its file has for constants."""

from dataclasses import dataclass, replace

import numpy as np

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.numerics.derive import round_scale
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning.given_ranges import GivenRanges
from qdqtool.quantization.planning.planner import Planned, Planner
from qdqtool.quantization.planning.scale_type import HighPrecision, round_given


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
        """Return the plan of a float model.

        Raises:
            UsageError: As the base planner.
        """
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
