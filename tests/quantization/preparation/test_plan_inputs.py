"""What a plan is made from: each source of ranges or data gives the same kind of value, or says why it does not fit."""

from pathlib import Path

import numpy as np
import pytest
from support.small import conv_model

from qdqtool.accuracy.layers.method_trial import try_methods
from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.models.graph.model import Model
from qdqtool.models.plan import QuantPlan
from qdqtool.quantization.planning.planner import Planned
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.quantization.preparation.calibration import runs_for
from qdqtool.quantization.preparation.plan_inputs import (
    PlanInputs,
    PlanSource,
    PlanSources,
    gather_inputs,
    open_validation,
)
from qdqtool.samples.request import FileData, open_feeds
from qdqtool.samples.sample import data_digest, sample_digest
from qdqtool.samples.split import SAME_DATA

WEIGHTS = "int8-weight-only"
NOTHING = Planned(plan=QuantPlan(()))


def gathered(source: PlanSource | None, **recipe: str) -> PlanInputs:
    wanted = Recipe(**recipe)
    with runs_for(wanted) as runs:
        return gather_inputs(Model(conv_model()), PlanSources(source, trial=try_methods), wanted, runs)


def test_ranges_of_a_file_are_those_of_a_calibration(data, tmp_path):
    one = gathered(data)
    calibrate_to_file(Model(conv_model()), data, tmp_path / "r.json")
    two = gathered(CachedRanges(path=tmp_path / "r.json", data=FileData(path=data)))
    assert one.ranges.tensors == two.ranges.tensors
    used = [inputs.used_for(NOTHING) for inputs in (one, two)]
    assert [each and (each.samples, each.method, each.random) for each in used] == [(4, "auto", False)] * 2


def test_a_mode_that_needs_no_ranges_has_none_with_data_or_without(data):
    alone, beside = gathered(None, quantize_mode=WEIGHTS), gathered(data, quantize_mode=WEIGHTS)
    assert (alone.ranges, alone.feeds, alone.used_for(NOTHING)) == (None, None, None)
    assert beside.ranges is None
    used = beside.used_for(NOTHING)
    assert (used.method, used.samples, used.held_back) == ("nearest", 3, 1)


def test_ranges_of_another_tool_leave_the_model_as_it_is(tmp_path):
    np.savez(tmp_path / "given.npz", x=np.float32([-1, 1]), r=np.float32([0, 2]))
    inputs = gathered(CachedRanges(path=tmp_path / "given.npz"))
    assert inputs.given is not None
    assert (inputs.ranges, inputs.prepared.reports) == (None, ())
    used = inputs.used_for(NOTHING)
    assert used.given == inputs.given.report


def test_without_data_the_message_names_the_modes_that_need_none():
    with pytest.raises(UsageError, match="quantizes activations: it needs calibration data") as caught:
        gathered(None)
    assert str(caught.value.hint).startswith(
        "weight-only modes need no data: int8-weight-only, fp8-weight-only, int4, nvfp4"
    )
    assert "mxfp8" not in str(caught.value.hint)
    with pytest.raises(UsageError) as caught:
        gathered(None, target="onnx")
    assert "nvfp4, mxfp8" in str(caught.value.hint)


def test_data_of_the_same_samples_is_the_calibration_data_whatever_its_name(tmp_path: Path) -> None:
    images, model = np.random.default_rng(2).normal(size=(5, 3, 8, 8)).astype(np.float32), Model(conv_model())
    for name, array in (("d.npz", images), ("same.npz", images), ("fewer.npz", images[:4])):
        np.savez(tmp_path / name, x=array)
    calibration = data_digest([sample_digest(sample) for sample in open_feeds(model, tmp_path / "d.npz")])
    same, fewer = (open_validation(model, tmp_path / name) for name in ("same.npz", "fewer.npz"))
    assert (same.beside(calibration).validation, same.beside(calibration).reason) == (None, SAME_DATA)
    for found in (fewer.beside(calibration), same.beside(None), same.alone()):
        assert (found.validation, found.reason, found.held_back) == (found.feeds.description.source, "", False)
    assert len(fewer.alone().feeds) == 4


def test_a_sample_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((2, 3, 8, 9), np.float32))
    with pytest.raises(UsageError, match=r"sample 0: input 'x' has shape"):
        open_validation(Model(conv_model()), tmp_path / "d.npz")
