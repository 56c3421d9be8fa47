"""Choose the planner, by the data that there is to plan with."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qdqtool.models.plan import Slot
from qdqtool.numerics.scheme import QuantParams
from qdqtool.quantization.planning.given_planner import GivenPlanner
from qdqtool.quantization.planning.given_ranges import GivenRanges
from qdqtool.quantization.planning.planner import Planner
from qdqtool.quantization.planning.range_planner import RangePlanner
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.planning.weight_planner import WeightPlanner
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.samples import Feeds
from qdqtool.samples.feeds import Progress


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
