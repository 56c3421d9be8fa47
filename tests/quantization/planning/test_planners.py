"""Planners: one type, chosen by what there is to plan from; a plan depends on the model and on nothing kept."""

import numpy as np
import pytest
from support.small import conv_model, matmul_model

from qdqtool.errors import ModelError
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.planning.planner import Planned, Planner, index_to_plan
from qdqtool.quantization.planning.planners import PlanData, WeightPlanner, planner_for
from qdqtool.quantization.planning.range_planner import RangePlanner
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.ranges.types import CalibrationRecord, Ranges, TensorRange


def ranges(**largest: float) -> Ranges:
    record = CalibrationRecord(
        method="max", samples=1, random=True, seed=0, data_sha256="", model_sha256="", preparation=()
    )
    return Ranges(record, {((), name): TensorRange(-amax, amax, amax, 1) for name, amax in largest.items()})


def constants(plan: QuantPlan) -> dict[str, tuple[str, list[float]]]:
    return {each.slot.tensor: (each.params.scheme.format.name, np.ravel(each.params.scale).tolist()) for each in plan}


def test_the_planner_follows_from_what_the_mode_needs():
    assert isinstance(planner_for(Recipe(), PlanData(ranges=ranges(x=1.0))), RangePlanner)
    weights = Recipe(quantize_mode="int4")
    assert planner_for(weights, PlanData()) == WeightPlanner(weights)
    assert planner_for(weights, PlanData(stored=False)) == WeightPlanner(weights, stored=False)


def test_weights_are_stored_as_codes_unless_the_user_says_otherwise():
    """Only then may scales be negative."""
    index, recipe = index_to_plan(Model(matmul_model(inner=32))), Recipe(quantize_mode="int4", target="tensorrt-rtx")
    for stored, planner in [(True, WeightPlanner(recipe)), (False, WeightPlanner(recipe, stored=False))]:
        (placement,) = planner.plan(index).plan
        assert (placement.params.scale.min() < 0) == stored


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: setattr(model.opset_import[0], "version", 999), "the model imports opset 999"),
        (lambda model: model.graph.node[0].input.__setitem__(0, "y"), "'y'"),
    ],
    ids=["opset", "cycle"],
)
def test_a_model_of_an_unknown_opset_or_that_is_no_graph_is_not_planned_for(change, message):
    model = matmul_model()
    change(model)
    with pytest.raises(ModelError) as caught:
        index_to_plan(Model(model))
    assert message in caught.value.message


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
