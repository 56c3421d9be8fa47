"""Which modes a target takes."""

import numpy as np
import pytest
from support.refusals import refused
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.models import targets
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import Placement, QuantPlan, Slot
from qdqtool.numerics import formats
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme
from qdqtool.quantization.planning import modes
from qdqtool.quantization.planning.target_fit import (
    find_refusals,
    refused_by_any,
    require_mode,
    require_targets,
    taken_modes,
)


@pytest.mark.parametrize("target", ["onnx", "ort-cpu", "tensorrt", "tensorrt-rtx"])
def test_the_modes_that_a_target_takes_are_those_that_it_does_not_refuse(target):
    taken = taken_modes(target)
    assert modes.DEFAULT in taken
    for name in modes.units():
        if name in taken:
            require_mode(name, target)
        else:
            with pytest.raises(UsageError, match=target):
                require_mode(name, target)


def test_tensorrt_takes_no_power_of_two_scales_and_onnx_does():
    assert "mxfp8" not in taken_modes("tensorrt")
    assert "mxfp8" in taken_modes("onnx")


@pytest.mark.parametrize(
    ("mode", "target", "reason", "alternative"),
    [
        ("mxfp8", "tensorrt", "takes no scales in float8e8m0", "--quantize-mode fp8-weight-only"),
        ("float8e5m2", "tensorrt", "takes no float8e5m2", "float8e4m3fn, with scales derived for its range"),
        ("nvfp4", "ort-cpu", "takes no float4e2m1", "--quantize-mode int4"),
        ("nvfp4", "tensorrt-10.3", "takes no float4e2m1 before release 10.8", "--quantize-mode int4"),
        ("int16", "tensorrt-rtx", "takes no int16", "none; choose another target"),
    ],
)
def test_a_refused_mode_names_the_nearest_that_is_taken(mode, target, reason, alternative):
    with refused(UsageError, f"quantize mode '{mode}': {target} {reason}", hint=f"nearest alternative: {alternative}"):
        require_mode(mode, target)


def plan_of(**tensors: str) -> tuple[QuantPlan, ModelIndex]:
    """A plan for tensors of the Conv model, each with a number format."""
    placements = [
        Placement(
            Slot((), name), QuantParams(QuantScheme(formats.get(fmt), PerTensor()), np.float32(1).reshape(())), ""
        )
        for name, fmt in tensors.items()
    ]
    return QuantPlan(tuple(placements)), ModelIndex.of(Model(conv_model()))


def test_refusals_name_tensors_in_the_order_of_the_plan():
    plan, index = plan_of(x="int8", w="int16", r="int16")
    found = list(find_refusals(plan, index, targets.get("tensorrt")))
    assert [(each.target, each.tensor, each.graph) for each in found] == [("tensorrt", "w", ""), ("tensorrt", "r", "")]
    assert {(each.target, each.tensor) for each in refused_by_any(plan, index)} >= {("tensorrt", "w")}
    assert all(each.target != "onnx" for each in refused_by_any(plan, index))


def test_the_hint_has_the_alternative_of_the_first_refusal():
    plan, index = plan_of(x="float8e5m2")
    with pytest.raises(UsageError) as caught:
        require_targets(plan, index, ["tensorrt"])
    assert caught.value.hint == "nearest alternative: float8e4m3fn, with scales derived for its range"


@pytest.mark.parametrize(("tensors", "more"), [({"w": "int16"}, ""), ({"w": "int16", "r": "int16"}, " (and 1 more)")])
def test_a_plan_is_refused_with_its_first_tensor_and_the_nearest_alternative(tensors, more):
    plan, index = plan_of(x="int8", **tensors)
    first = next(find_refusals(plan, index, targets.get("tensorrt")))
    with refused(
        UsageError,
        f"tensor 'w': tensorrt {first.reason}{more}",
        hint=f"nearest alternative: {first.alternative or 'none; leave the tensor in float'}",
    ):
        require_targets(plan, index, ["onnx", "tensorrt"])


def test_a_plan_that_every_target_takes_is_refused_by_none():
    plan, index = plan_of(x="int8", w="int8")
    require_targets(plan, index, targets.names())
    assert refused_by_any(plan, index) == ()


def test_tensorrt_takes_fp8_scales_of_blocks_and_says_what_it_does_not_know():
    assert taken_modes("tensorrt") == ("int8", "fp8", "int8-weight-only", "fp8-weight-only", "int4", "nvfp4")
    proto = conv_model()
    proto.graph.node[1].domain, proto.graph.node[1].op_type = "nowhere", "Mystery"
    plan, _ = plan_of(r="int8")
    (found,) = find_refusals(plan, ModelIndex.of(Model(proto)), targets.get("tensorrt"))
    assert found.reason == "quantizes no undefined"
