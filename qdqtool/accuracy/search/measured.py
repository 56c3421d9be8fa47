"""Measure what ``quantize`` costs, on samples with which nothing was chosen.

The ranges of the written model are those of all samples. On held-back samples it would look better than on any other
data. So a rehearsal is measured there: the model that the same steps give with the ranges of the choosing part alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from qdqtool.accuracy.checking.accuracy import Accuracy, Candidate, measure_accuracy
from qdqtool.accuracy.search.steps import Quantized, QuantizeSteps
from qdqtool.errors import UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan
from qdqtool.quantization.planning.high_precision import HighPrecision, magnitudes_in
from qdqtool.quantization.planning.planners import PlanData, planner_for
from qdqtool.quantization.ranges.types import Ranges
from qdqtool.quantization.statistics.float_runs import FloatRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was measured.

    Attributes:
        accuracy: The cost of quantizing; None where there is no data.
        loaded: Whether the reference session loaded the written model, or one with the same nodes.
    """

    accuracy: Accuracy | None
    loaded: bool


def measure_cost(
    made: Quantized, plan: QuantPlan, index: ModelIndex, steps: QuantizeSteps, runs: FloatRuns
) -> Measured:
    """Measure the accuracy of a quantized model on the samples that there are for it.

    Args:
        made: The model that will be written.
        plan: Its pairs.
        index: The index of the model that was planned for.
        steps: Made the model; they make the rehearsal too.
        runs: Runs the float model; its session is closed afterwards.
    """
    inputs = steps.inputs
    if inputs.measuring is None:
        return Measured(accuracy=None, loaded=False)
    try:
        rehearsal = _rehearsal(plan, index, steps)
    except UsageError as error:
        problem = f"the choosing part of the samples gives no model: {error.message}"
        return Measured(accuracy=Accuracy(samples=0, problem=problem), loaded=False)
    opened: list[Model] = []

    def make() -> Model:
        opened.append(made.model if rehearsal is None else steps.carry_out(*rehearsal).model)
        return opened[0]

    measured, written = (plan, None) if rehearsal is None else (rehearsal[0], plan)
    candidate = Candidate(make=make, plan=measured, written=written)
    cost = measure_accuracy(inputs.prepared.model, candidate, inputs.measuring, runs)
    if steps.metric is not None and not cost.problem:
        cost = replace(cost, metric=steps.metric.of(inputs.prepared.model, opened[0], inputs.measuring.feeds, runs))
    return Measured(accuracy=cost, loaded=not cost.problem and _has_nodes_of(made.model, opened[0]))


def _rehearsal(plan: QuantPlan, index: ModelIndex, steps: QuantizeSteps) -> tuple[QuantPlan, Ranges] | None:
    """Return the plan with the ranges of the choosing part; None where it is the same, or where none is held back."""
    ranges, measuring = steps.inputs.ranges, steps.inputs.measuring
    if ranges is None or ranges.choosing is None or measuring is None or not measuring.held_back:
        return None
    chosen = replace(ranges, tensors=ranges.choosing, choosing=None)
    weights = {place.slot: place.params for place in plan}
    found = planner_for(steps.recipe, PlanData(ranges=chosen, weights=weights)).plan(index).plan
    # The ranges also decide which nodes become float16.
    lowers = steps.recipe.high_precision is HighPrecision.FP16
    same = not lowers or magnitudes_in(ranges) == magnitudes_in(chosen)
    return None if same and _are_same(plan, found) else (found, chosen)


def _are_same(one: QuantPlan, two: QuantPlan) -> bool:
    return len(one) == len(two) and all(map(_is_same, one, two))


def _is_same(one: Placement, two: Placement) -> bool:
    first, second = one.params, two.params
    return one.slot == two.slot and (
        first is second or (first.scheme == second.scheme and np.array_equal(first.scale, second.scale))
    )


def _has_nodes_of(one: Model, two: Model) -> bool:
    """Return whether two models have the same nodes, so that a session that loads one loads the other."""
    return one is two or list(one.proto.graph.node) == list(two.proto.graph.node)
