"""A quantized model notes how its float model was prepared, and a check prepares the baseline alike."""

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
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.metadata import preparation_note, prepared_like
from qdqtool.quantization.ranges.types import PreparationStep

SAMPLE = ROOT / "sample_models" / "digits_depthwise"


def noted(text: str) -> Model:
    proto = conv_model()
    proto.metadata_props.add(key=PREPARATION_KEY, value=text)
    return Model(proto)


def test_the_weights_of_an_equalized_model_are_checked_against_the_equalized_baseline(tmp_path):
    quantize_model(SAMPLE / "uneven.onnx", SAMPLE / "calibration.npz", tmp_path / "q.onnx")
    report = check_model(tmp_path / "q.onnx", baseline=SAMPLE / "uneven.onnx", data=SAMPLE / "calibration.npz")
    assert report.passed
    activations = [boundary.sqnr_db for boundary in report.boundaries if boundary.sqnr_db is not None]
    assert len(activations) > 15
    assert min(activations) > 20


def test_a_changed_weight_is_still_found(tmp_path):
    quantize_model(SAMPLE / "uneven.onnx", SAMPLE / "calibration.npz", tmp_path / "q.onnx")
    other = onnx.load(SAMPLE / "uneven.onnx")
    weight = next(tensor for tensor in other.graph.initializer if tensor.name == "block3.pointwise.conv.weight")
    weight.CopyFrom(onnx.numpy_helper.from_array(1.1 * onnx.numpy_helper.to_array(weight), weight.name))
    onnx.save(other, tmp_path / "other.onnx")
    report = check_model(tmp_path / "q.onnx", baseline=tmp_path / "other.onnx", data=SAMPLE / "calibration.npz")
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
