"""A quantized model notes how its float model was prepared, and a check prepares the baseline alike."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.paths import ROOT
from support.small import conv_model

from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.models.graph.io.load import load_model
from qdqtool.models.graph.io.metadata import PREPARATION_KEY, read_metadata, with_metadata
from qdqtool.models.graph.model import Model
from qdqtool.quantization.calibration_report import CalibrationUsed
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.metadata import data_of_weights, preparation_note, prepared_like, used_ranges
from qdqtool.quantization.ranges.method_choice import encode_choice
from qdqtool.quantization.ranges.types import CalibrationRecord, PreparationStep
from qdqtool.samples.report import DataDescription

SAMPLE = ROOT / "sample_models" / "digits_depthwise"


def noted(text: str) -> Model:
    proto = conv_model()
    proto.metadata_props.add(key=PREPARATION_KEY, value=text)
    return Model(proto)


@pytest.fixture(scope="module")
def equalized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quantized model whose channels were equalized."""
    written = tmp_path_factory.mktemp("equalized") / "q.onnx"
    quantize_model(SAMPLE / "uneven.onnx", SAMPLE / "calibration.npz", written)
    return written


@pytest.mark.slow(reason="trials of preparation")
def test_the_weights_of_an_equalized_model_are_checked_against_the_equalized_baseline(equalized):
    report = check_model(equalized, baseline=SAMPLE / "uneven.onnx", data=SAMPLE / "calibration.npz")
    assert report.passed
    activations = [boundary.sqnr_db for boundary in report.boundaries if boundary.sqnr_db is not None]
    assert len(activations) > 15
    assert min(activations) > 20


def test_a_changed_weight_is_still_found(equalized, tmp_path):
    other = onnx.load(SAMPLE / "uneven.onnx")
    weight = next(tensor for tensor in other.graph.initializer if tensor.name == "block3.pointwise.conv.weight")
    weight.CopyFrom(onnx.numpy_helper.from_array(1.1 * onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save(other, tmp_path / "other.onnx")
    report = check_model(equalized, baseline=tmp_path / "other.onnx", data=SAMPLE / "calibration.npz")
    assert not report.passed
    assert "block3.pointwise.conv.weight" in report.failures[0]


def test_a_model_whose_weights_are_as_given_has_no_note(tmp_path):
    options = QuantizeOptions(recipe=Recipe(preparation=Preparation(equalize=False, smoothquant=None)))
    quantize_model(SAMPLE / "model.onnx", SAMPLE / "calibration.npz", tmp_path / "q.onnx", options)
    assert read_metadata(load_model(tmp_path / "q.onnx"), PREPARATION_KEY) is None


def test_means_are_no_part_of_the_note():
    model = with_metadata(Model(conv_model()), preparation_note([PreparationStep("bias-correction", {"inputs": []})]))
    assert read_metadata(model, PREPARATION_KEY) is None


def test_smoothed_models_are_prepared_alike():
    model = with_metadata(Model(conv_model()), preparation_note([PreparationStep("smoothquant", {"joints": []})]))
    assert [report.step for report in prepared_like(model, Model(conv_model())).reports] == ["smoothquant"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1]",
        '[{"step": "polish", "parameters": {}}]',
        '[{"step": "equalization", "parameters": {"joints": [{"tensor": "q", "scope": [], "factors": [1]}]}}]',
        '[{"step": "equalization", "parameters": {"joints": [{"tensor": "c", "scope": [], "factors": [-1]}]}}]',
        "[" * 10000,
    ],
)
def test_a_note_that_means_nothing_counts_for_nothing(text):
    baseline = Model(conv_model())
    assert prepared_like(noted(text), baseline).model is baseline


def test_the_note_is_the_same_as_what_a_ranges_file_keeps():
    factors = np.array([1.0, 2.0, 0.5, 1.0])
    step = PreparationStep("equalization", {"joints": [{"tensor": "c", "scope": [], "factors": factors.tolist()}]})
    model = with_metadata(Model(conv_model()), preparation_note([step]))
    assert prepared_like(model, Model(conv_model())).record == (step,)


RECORD = CalibrationRecord(method="max", samples=7, random=True, seed=3, data_sha256="", model_sha256="")


@pytest.mark.parametrize("forced", [(), ("model", "data")])
def test_ranges_are_told_with_the_method_of_the_recipe_and_what_they_do_not_match(forced):
    known = {"source": "ranges.json", "method": "mse", "samples": 7, "random": True, "seed": 3, "given": None}
    told = {"forced": bool(forced), "forced_for": forced, "repeated": 0, "from_file": False}
    assert used_ranges("ranges.json", RECORD, Recipe(method="mse"), forced) == CalibrationUsed(**known, **told)


@pytest.mark.parametrize(("rounded", "method"), [(0, "nearest"), (1, "gptq"), (5, "gptq")])
@pytest.mark.parametrize("seed", [None, 0])
def test_data_chose_the_codes_of_weights_or_none(rounded, method, seed):
    data = DataDescription("data.npz", 9, seed, {}, repeated=2)
    found = data_of_weights(data, 7, rounded=rounded)
    assert (found.source, found.method, found.samples, found.held_back) == ("data.npz", method, 7, 2)
    assert (found.random, found.seed, found.repeated) == (seed is not None, seed, 2)
    assert (found.forced, found.forced_for, found.given, found.from_file) == (False, (), None, False)


@pytest.mark.parametrize(
    ("method", "chosen", "told"),
    [("auto", None, "auto"), ("auto", "mse", "mse"), ("max", "mse", ""), ("max", None, "")],
)
def test_the_choice_is_told_where_auto_was_asked_for(method, chosen, told):
    steps = () if chosen is None else (encode_choice(chosen),)
    found = used_ranges("data.npz", replace(RECORD, preparation=steps), Recipe(method=method))
    assert (found.method, found.chosen, found.method_trial) == (method, told, None)
