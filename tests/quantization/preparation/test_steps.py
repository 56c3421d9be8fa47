"""Each step says itself when it is made, which records it fits, and how a report names what it did."""

import pytest
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import Trial
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.preparation.prepare import prepare_as_recorded
from qdqtool.quantization.preparation.step import StepRequest
from qdqtool.quantization.preparation.steps import asked_steps, known_steps
from qdqtool.quantization.ranges.types import PreparationStep

STEPS = known_steps().values()


def test_no_two_steps_have_the_same_place_in_the_order():
    assert [step.order for step in STEPS] == sorted({step.order for step in STEPS})


def test_normalizations_are_folded_before_channels_are_rescaled():
    order = ["computed_weights", "batchnorm", "equalization", "smoothquant", "awq"]
    assert [name for name in known_steps() if name in order] == order


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_a_step_says_what_it_finds_and_does(step):
    """A step that rescales tensors can be left out as well: ranges for other tools are found without such steps."""
    assert step.thing
    assert step.done
    assert step.off or not step.rescales_tensors


@pytest.mark.parametrize(
    ("asked", "integers", "names"),
    [
        (Preparation(), True, {"computed_weights", "batchnorm", "equalization", "smoothquant"}),
        (Preparation(), False, {"computed_weights", "batchnorm", "equalization"}),
        (Preparation(smoothquant=0.5), False, {"computed_weights", "batchnorm", "equalization", "smoothquant"}),
        (Preparation(equalize=False), True, {"computed_weights", "batchnorm", "smoothquant"}),
        (Preparation(equalize=False, smoothquant=None), True, {"computed_weights", "batchnorm"}),
    ],
)
def test_steps_are_made_as_options_and_activations_want_it(asked, integers, names):
    asked_for = {step.name for step in asked_steps(StepRequest(asked, integers))}
    assert asked_for & {"computed_weights", "batchnorm", "equalization", "smoothquant"} == names


@pytest.mark.parametrize(
    ("step", "asked", "made", "problem"),
    [
        ("equalization", Preparation(equalize=False), True, "after equalizing the model, but --no-equalize is given"),
        (
            "smoothquant",
            Preparation(smoothquant=None),
            True,
            "after smoothing the model, but --smoothquant off is given",
        ),
        ("smoothquant", Preparation(smoothquant=0.5), False, "without the step that --smoothquant asks for"),
        ("awq", Preparation(awq=False), True, "after scaling the model by AWQ, but --awq off is given"),
        ("awq", Preparation(), True, ""),
        ("awq", Preparation(awq=False), False, ""),
        ("equalization", Preparation(), True, ""),
        ("equalization", Preparation(equalize=False), False, ""),
        ("smoothquant", Preparation(smoothquant=0.5), True, ""),
        ("smoothquant", Preparation(), False, ""),
        ("batchnorm", Preparation(equalize=False, smoothquant=None), True, ""),
    ],
)
def test_a_step_says_why_a_record_does_not_fit(step, asked, made, problem):
    found = known_steps()[step].disagreement(asked, made=made)
    assert found == (f"the ranges were found {problem}" if problem else "")


def test_a_record_that_does_not_fit_is_refused_with_advice():
    record = [PreparationStep("equalization", {"joints": []})]
    with pytest.raises(UsageError, match="but --no-equalize is given") as caught:
        prepare_as_recorded(Model(conv_model()), record, Preparation(equalize=False))
    assert caught.value.hint == "calibrate again with the options that you want"


def test_a_step_that_a_trial_refused_is_not_repeated():
    factors = {"joints": [{"tensor": "c", "scope": [], "factors": [1.0, 2.0, 0.5, 1.0]}]}
    model, trial = Model(conv_model()), Trial(samples=2, kept=False)
    done = prepare_as_recorded(model, [PreparationStep("equalization", factors, trial)])
    assert done.model.proto == model.proto
    assert [(report.applied, report.trial) for report in done.reports] == [(False, trial)]
