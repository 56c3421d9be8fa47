"""Ranges from a file with data beside them: the ranges decide, the data measures, and must be theirs."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import conv_model

from qdqtool.errors import UsageError
from qdqtool.jobs.calibrate import calibrate_to_file
from qdqtool.jobs.convert_ranges import convert_ranges
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.quantization.planning.options import Preparation
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.quantization.preparation.cached_ranges import CachedRanges
from qdqtool.samples.request import FileData, RandomData
from qdqtool.samples.split import SAME_DATA, THEIRS, UNKNOWN, split_samples

AS_IT_IS = Preparation(equalize=False, smoothquant=None, bias_correction=False)


def saved_data(path: Path, seed: int = 2, count: int = 4) -> Path:
    np.savez(path, x=np.random.default_rng(seed).normal(size=(count, 3, 8, 8)).astype(np.float32))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model, its data, other data, and ranges of the model and its data."""
    onnx.save(conv_model(), tmp_path / "m.onnx")
    saved_data(tmp_path / "other.npz", seed=3)
    calibrate_to_file(tmp_path / "m.onnx", saved_data(tmp_path / "d.npz"), tmp_path / "r.json")
    return tmp_path


def quantize(folder: Path, source: object, output: str = "q.onnx", **recipe: object) -> QuantizeReport:
    return quantize_model(folder / "m.onnx", source, folder / output, QuantizeOptions(recipe=Recipe(**recipe)))


def cache(folder: Path, data: str, name: str = "r.json", *, samples: int | None = None, force: bool = False):
    return CachedRanges(path=folder / name, force=force, data=FileData(path=folder / data, samples=samples))


def test_data_beside_ranges_gives_the_model_of_one_run_and_is_called_calibration_data(folder):
    quantize(folder, folder / "d.npz", "one.onnx")
    two = quantize(folder, cache(folder, "d.npz"), "two.onnx")
    assert (folder / "one.onnx").read_bytes() == (folder / "two.onnx").read_bytes()
    assert (two.accuracy.samples, two.accuracy.held_back, two.accuracy.reason) == (4, False, THEIRS)
    assert (two.calibration.forced, two.calibration.forced_for) == (False, ())


def test_validation_data_beside_ranges_is_measured_on(folder):
    quantize(folder, folder / "d.npz", "one.onnx")
    ranges = CachedRanges(path=folder / "r.json")
    for data, validation, reason in (("other.npz", str(folder / "other.npz"), ""), ("d.npz", None, SAME_DATA)):
        options = QuantizeOptions(validation_data=folder / data)
        found = quantize_model(folder / "m.onnx", ranges, folder / "q.onnx", options).accuracy
        assert (found.samples, found.held_back, found.validation, found.reason) == (4, False, validation, reason)
        assert (folder / "one.onnx").read_bytes() == (folder / "q.onnx").read_bytes()
    with pytest.raises(UsageError, match="would both measure the accuracy"):
        quantize_model(folder / "m.onnx", cache(folder, "d.npz"), folder / "no.onnx", options)
    assert not (folder / "no.onnx").exists()


def test_data_beside_ranges_is_not_calibrated_on(folder, monkeypatch):
    monkeypatch.setattr(
        "qdqtool.quantization.preparation.plan_inputs.calibrate_model", lambda *_: pytest.fail("calibrated again")
    )
    monkeypatch.setattr("qdqtool.quantization.preparation.prepare.prepare", lambda *_: pytest.fail("prepared again"))
    assert quantize(folder, cache(folder, "d.npz")).accuracy is not None


@pytest.mark.parametrize(("data", "samples"), [("other.npz", None), ("d.npz", 3)])
def test_other_data_than_that_of_the_ranges_is_refused_unless_forced(data, samples, folder):
    with pytest.raises(UsageError, match=r"were found on other data \(4 samples\) than .* \([34] samples\)") as caught:
        quantize(folder, cache(folder, data, samples=samples))
    assert "--force" in caught.value.hint
    assert "measure on other data with --validation-data" in caught.value.hint
    assert not (folder / "q.onnx").exists()
    report = quantize(folder, cache(folder, data, samples=samples, force=True))
    assert (report.accuracy.held_back, report.accuracy.reason) == (False, UNKNOWN)
    assert report.calibration.forced_for == ("data",)


def test_real_data_is_not_that_of_random_ranges(folder):
    calibrate_to_file(folder / "m.onnx", RandomData(), folder / "random.json")
    with pytest.raises(UsageError, match=r"other data \(random samples\)"):
        quantize(folder, cache(folder, "d.npz", "random.json"))


def test_data_of_files_of_the_first_version_cannot_be_told_from_other(folder):
    document = json.loads((folder / "r.json").read_text())
    del document["data"]["chunk"]
    (folder / "r.json").write_text(json.dumps(document))
    assert quantize(folder, CachedRanges(path=folder / "r.json")).accuracy is None
    with pytest.raises(
        UsageError,
        match=r"an earlier version wrote ranges .*r\.json without a record of their data: it may not be .*d\.npz",
    ):
        quantize(folder, cache(folder, "d.npz"))


def test_data_that_does_not_fit_the_model_is_refused_even_if_forced(folder):
    np.savez(folder / "d.npz", x=np.zeros((4, 5, 8, 8), np.float32))
    with pytest.raises(UsageError, match=r"input 'x' has shape \[1, 5, 8, 8\]; the model takes x"):
        quantize(folder, cache(folder, "d.npz", force=True))


def test_ranges_of_another_tool_are_measured_with_data_too(folder):
    calibrate_to_file(folder / "m.onnx", folder / "d.npz", folder / "plain.json", Recipe(preparation=AS_IT_IS))
    convert_ranges(folder / "plain.json", folder / "theirs.npz", "npz")
    report = quantize(folder, cache(folder, "d.npz", "theirs.npz"), preparation=AS_IT_IS)
    assert report.corrected == ()
    held = np.load(folder / "d.npz")["x"][list(split_samples(4).held)]
    np.savez(folder / "held.npz", x=held)
    options = QuantizeOptions(recipe=Recipe(preparation=AS_IT_IS), validation_data=folder / "held.npz")
    theirs = CachedRanges(path=folder / "theirs.npz")
    expected = quantize_model(folder / "m.onnx", theirs, folder / "theirs.onnx", options)
    assert (report.accuracy.samples, report.accuracy.held_back, report.accuracy.reason) == (1, False, UNKNOWN)
    assert expected.accuracy == replace(report.accuracy, reason="", validation=str(folder / "held.npz"))


def test_ranges_of_another_tool_with_data_get_their_biases_corrected(folder):
    calibrate_to_file(folder / "m.onnx", folder / "d.npz", folder / "plain.json", Recipe(preparation=AS_IT_IS))
    convert_ranges(folder / "plain.json", folder / "theirs.npz", "npz")
    unprepared = Preparation(equalize=False, smoothquant=None)
    theirs = quantize(folder, cache(folder, "d.npz", "theirs.npz"), "theirs.onnx", preparation=unprepared)
    ours = quantize(folder, folder / "d.npz", "ours.onnx", preparation=unprepared)
    assert theirs.corrected == ours.corrected == ("conv1", "conv2")
    assert quantize(folder, CachedRanges(path=folder / "theirs.npz"), "alone.onnx").corrected == ()


def test_the_output_may_not_be_the_data(folder):
    before = (folder / "d.npz").read_bytes()
    with pytest.raises(UsageError, match=r"d\.npz"):
        quantize(folder, cache(folder, "d.npz"), "d.npz")
    assert (folder / "d.npz").read_bytes() == before
