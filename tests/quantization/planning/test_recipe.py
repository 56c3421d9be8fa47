"""The options of quantization: which are legal, and what they mean to calibration and to the model."""

from typing import Any

import pytest
from support.refusals import refused
from support.small import matmul_model

from qdqtool.errors import ArgumentError, UsageError
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.model import Model
from qdqtool.numerics import formats
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe, with_fixed_inputs


def test_a_model_is_prepared_in_every_way_unless_the_user_says_otherwise():
    assert Preparation() == Preparation(
        equalize=True, smoothquant="auto", bias_correction=True, awq=True, float_layer=True
    )
    assert Recipe().preparation == Preparation()


@pytest.mark.parametrize("alpha", [None, "auto", 0.0, 0.5, 1.0])
def test_alpha_is_a_number_from_0_to_1_auto_or_none(alpha: Any):
    assert Preparation(smoothquant=alpha).smoothquant == alpha


@pytest.mark.parametrize("alpha", [-0.1, 1.5, 2.0, float("nan"), "off"])
def test_another_alpha_is_refused(alpha: Any):
    with refused(ArgumentError, f"smoothquant is {alpha!r}; legal: 'auto', or a number from 0 to 1"):
        Preparation(smoothquant=alpha)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "maximum"}, "calibration method 'maximum' is unknown; legal: auto, entropy, max, mse, percentile"),
        ({"method": "max", "percentile": 99.0}, "percentile is set, but calibration method 'max' does not use it"),
        ({"method": "percentile", "percentile": 49.0}, "percentile is 49; legal: 50 to 100"),
        ({"quantize_mode": "int3"}, "quantize mode 'int3' is unknown"),
        ({"target": "nowhere"}, "target 'nowhere' is unknown"),
    ],
)
def test_a_recipe_with_an_unknown_or_unused_option_is_refused(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError) as caught:
        Recipe(**options)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("method", "asked", "percent", "stored"),
    [
        ("percentile", None, 99.99, {"percentile": 99.99}),
        ("percentile", 97.5, 97.5, {"percentile": 97.5}),
        ("max", None, 99.99, {}),
    ],
)
def test_the_percentile_has_a_default_and_only_its_own_method_stores_it(method, asked, percent, stored):
    recipe = Recipe(method=method, percentile=asked)
    goal = recipe.goal(formats.get("int8"))
    assert (goal.format.name, goal.percentile, goal.peaked) == ("int8", percent, False)
    assert recipe.parameters() == stored


def test_a_mode_of_weights_alone_has_no_use_for_ranges():
    Recipe().require_ranges("never")
    with refused(UsageError, "quantize mode 'int4' quantizes weights only: there is nothing to do", hint="do this"):
        Recipe(quantize_mode="int4").require_ranges("there is nothing to do", hint="do this")


def test_the_shapes_that_the_user_fixes_are_those_of_the_model():
    source = Model(matmul_model())
    assert with_fixed_inputs(source, Recipe()) is source
    index = ModelIndex.of(with_fixed_inputs(source, Recipe(input_shapes={"x": (3, 8)})))
    shapes = {name: index.types.shape(index.view.main.values[name]) for name in "xy"}
    assert shapes == {"x": (3, 8), "y": (3, 6)}
    with pytest.raises(UsageError):
        with_fixed_inputs(source, Recipe(input_shapes={"x": (3, 9)}))


@pytest.mark.parametrize(
    ("mode", "gpus", "missing"),
    [
        ("fp8", (86,), "compute capability 8.6 has no float8e4m3fn, which quantize mode 'fp8' needs"),
        ("int4", (75, 80), "compute capability 7.5 has no int4, which quantize mode 'int4' needs"),
        ("fp8", (89, 120), None),
        ("int8", (75,), None),
    ],
)
def test_a_mode_that_a_gpu_lacks_is_refused(mode: str, gpus: tuple[int, ...], missing: str | None):
    if missing is None:
        Recipe(quantize_mode=mode).require_hardware(gpus)
        return
    with pytest.raises(UsageError) as caught:
        Recipe(quantize_mode=mode).require_hardware(gpus)
    assert caught.value.message == missing
    assert "`--quantize-mode int8`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("target", "gpu", "message"),
    [
        ("tensorrt-rtx", 87, "TensorRT for RTX cannot build for compute capability 8.7 (Jetson Orin)"),
        ("tensorrt-10.3", 110, "TensorRT 10.3 cannot build for compute capability 11.0 (Jetson Thor)"),
        ("tensorrt-10.3", 120, "TensorRT 10.3 cannot build for compute capability 12.0"),
    ],
)
def test_a_gpu_for_which_the_target_does_not_build_is_refused(target: str, gpu: int, message: str):
    with pytest.raises(UsageError) as caught:
        Recipe(target=target).require_hardware((gpu,))
    assert caught.value.message == message
    assert str(caught.value.hint).endswith("; `--target tensorrt` is for this GPU")
    Recipe(target="tensorrt").require_hardware((gpu,))


def test_the_gpu_of_jetpack_6_computes_in_int8_and_int4():
    for mode in ("int8", "int4"):
        Recipe(quantize_mode=mode, target="tensorrt-10.3").require_hardware((87,))
    with refused(UsageError, "compute capability 8.7 has no float8e4m3fn, which quantize mode 'fp8' needs"):
        Recipe(quantize_mode="fp8", target="tensorrt-10.3").require_hardware((87,))
