"""The method that auto uses for a whole model: how it is kept, read and applied."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.magnitudes import seen
from support.refusals import refused

from qdqtool.errors import UsageError
from qdqtool.numerics import formats
from qdqtool.quantization.ranges import calibrators
from qdqtool.quantization.ranges.method_choice import (
    DOMINANT_LAYER,
    METHOD_CHOICE,
    PLANNED,
    DominantLayer,
    chosen_method,
    encode_choice,
    encode_dominant,
    recorded_dominant,
    threshold,
)
from qdqtool.quantization.ranges.types import CalibrationRecord, PreparationStep, TensorRange

RECORD = CalibrationRecord(method="auto", samples=8, random=False, seed=None, data_sha256="", model_sha256="")
OTHER = PreparationStep("bias-correction", {"method": "max"})
INT8 = calibrators.RangeGoal(format=formats.get("int8"))
TAIL = seen(np.random.default_rng(0).laplace(size=100_000).astype(np.float32))
"""Values that every method clips elsewhere, but `auto`, which is `mse` for them."""


def with_steps(*steps: PreparationStep) -> CalibrationRecord:
    return replace(RECORD, preparation=steps)


def far(value: float, count: int) -> TensorRange:
    values = np.random.default_rng(0).normal(size=(64, 1024)).astype(np.float32)
    values.reshape(-1)[:count] = value
    return seen(values)


@pytest.mark.parametrize("method", calibrators.names())
def test_a_choice_is_read_as_it_was_kept(method):
    assert chosen_method(with_steps(OTHER, encode_choice(method)), "auto") == method


@pytest.mark.parametrize("steps", [(), (OTHER,)])
def test_without_a_choice_auto_stays_auto(steps):
    assert chosen_method(with_steps(*steps), "auto") == "auto"


@pytest.mark.parametrize("method", [name for name in calibrators.names() if name != "auto"])
def test_another_method_is_not_overruled(method):
    assert chosen_method(with_steps(encode_choice("max" if method != "max" else "mse")), method) == method


@pytest.mark.parametrize("parameters", [{}, {"method": None}, {"method": 1}, {"method": ["max"]}, {"method": "best"}])
def test_a_malformed_or_unknown_choice_is_refused(parameters):
    record = with_steps(PreparationStep(METHOD_CHOICE, parameters))
    with refused(
        UsageError,
        f"the ranges have a malformed step '{METHOD_CHOICE}': method {parameters.get('method')!r}",
        hint="calibrate again, or use the qdqtool that wrote them",
    ):
        chosen_method(record, "auto")
    # Nobody asks for it.
    assert chosen_method(record, "mse") == "mse"


@pytest.mark.parametrize("automatic", [True, False])
@pytest.mark.parametrize("method", calibrators.names())
def test_the_threshold_is_that_of_the_method(method, automatic):
    assert threshold(method, TAIL, INT8, automatic=automatic) == calibrators.get(method).threshold(TAIL, INT8)


def test_the_methods_differ():
    """Else the test above would compare nothing."""
    found = {name: threshold(name, TAIL, INT8, automatic=True).amax for name in calibrators.names()}
    assert len(set(found.values())) == len(found) - 1
    assert found["auto"] == found["mse"]


@pytest.mark.parametrize(("apart", "value", "count"), [("mask", -1e4, 6000), ("strays", 2e3, 3)])
@pytest.mark.parametrize("method", calibrators.names())
def test_distant_values_are_clipped_whatever_method_was_chosen_for_auto(method, apart, value, count):
    values = far(value, count)
    expected = calibrators.get("auto").threshold(values, INT8)
    assert expected.apart == apart
    assert threshold(method, values, INT8, automatic=True) == expected


@pytest.mark.parametrize(("value", "count"), [(-1e4, 6000), (2e3, 3)])
def test_a_method_of_the_user_does_with_distant_values_what_it_does(value, count):
    values = far(value, count)
    assert threshold("max", values, INT8, automatic=False).amax == abs(value)


LAYER = DominantLayer(
    nodes=(((), ("y",)), (("a.then",), ("z", ""))), noise_share=0.97, macs_share=0.001, weights_share=0.0
)


def test_the_layer_is_read_back_from_json():
    step = encode_dominant(LAYER)
    stored = PreparationStep(step.step, json.loads(json.dumps(step.parameters)))
    assert recorded_dominant([encode_choice("max"), stored]) == LAYER


def test_there_is_none_among_other_steps():
    assert recorded_dominant([encode_choice("max")]) is None
    assert {encode_choice("max").step, encode_dominant(LAYER).step} == PLANNED


@pytest.mark.parametrize("change", [{"nodes": 3}, {"nodes": [[["a"], "y"]]}, {"noise_share": "much"}])
def test_a_malformed_record_is_refused(change):
    step = PreparationStep(DOMINANT_LAYER, {**encode_dominant(LAYER).parameters, **change})
    with pytest.raises(UsageError, match=f"malformed step '{DOMINANT_LAYER}'") as error:
        recorded_dominant([step])
    assert error.value.hint is not None
