"""Planners: one type, chosen by what there is to plan from; a plan depends on the model and on nothing kept."""

import numpy as np
from support.small import conv_model, matmul_model

from qdqtool.graph.model import Model
from qdqtool.plan import QuantPlan
from qdqtool.planning.planner import Planned, Planner, index_to_plan
from qdqtool.planning.planners import PlanData, planner_for
from qdqtool.planning.range_planner import RangePlanner
from qdqtool.planning.recipe import Recipe
from qdqtool.planning.weight_planner import WeightPlanner
from qdqtool.ranges.types import CalibrationRecord, Ranges, TensorRange


def ranges(**largest: float) -> Ranges:
    record = CalibrationRecord(
        method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="", preparation=()
    )
    return Ranges(record, {((), name): TensorRange(-amax, amax, amax, 1) for name, amax in largest.items()})


def constants(plan: QuantPlan) -> dict[str, tuple[str, list[float]]]:
    return {each.slot.tensor: (each.params.scheme.format.name, np.ravel(each.params.scale).tolist()) for each in plan}


def test_the_planner_follows_from_what_the_mode_needs():
    assert isinstance(planner_for(Recipe(), PlanData(ranges=ranges(x=1.0))), RangePlanner)
    assert isinstance(planner_for(Recipe(quantize_mode="int4"), PlanData()), WeightPlanner)


def test_one_planner_makes_plans_of_several_models():
    """What it returned for one model has nothing of another."""
    planner: Planner = planner_for(Recipe(quantize_mode="int8-weight-only"), PlanData())
    convolution, product = index_to_plan(Model(conv_model())), index_to_plan(Model(matmul_model()))
    first, other, again = planner.plan(convolution), planner.plan(product), planner.plan(convolution)
    assert set(constants(first.plan)) == {"w", "v"}
    assert set(constants(other.plan)) == {"w"}
    assert constants(again.plan) == constants(first.plan)


def test_a_plan_of_ranges_says_what_has_none():
    planned = planner_for(Recipe(method="max"), PlanData(ranges=ranges(x=2.54, r=0.0))).plan(
        index_to_plan(Model(conv_model()))
    )
    assert isinstance(planned, Planned)
    assert constants(planned.plan)["x"] == ("int8", [np.float32(2.54 / 127)])
    assert [(each.tensor, each.condition) for each in planned.degenerate] == [("r", "zeros")]
    assert planned.skipped == ()
    assert (planned.given, planned.rounded_by_data) == (None, 0)
