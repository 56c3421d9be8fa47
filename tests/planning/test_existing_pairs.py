"""A model that is quantized already is refused, kept or quantized anew, as the user says."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from support.small import conv_model, run

from qdqtool.data.request import FileData
from qdqtool.errors import UsageError
from qdqtool.graph.io.load import load_model
from qdqtool.graph.io.metadata import CALIBRATION_KEY, PREPARATION_KEY
from qdqtool.jobs.calibrate import calibrate
from qdqtool.jobs.diff import diff_models
from qdqtool.jobs.matches import list_matches
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.planning.existing import Existing
from qdqtool.planning.existing_pairs import notes_beside
from qdqtool.planning.placement import Selection
from qdqtool.planning.recipe import Recipe

SAMPLES = Path(__file__).parents[2] / "sample_models"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(2).normal(size=(4, 3, 8, 8)).astype(np.float32))
    return tmp_path / "data.npz"


@pytest.fixture
def half(tmp_path: Path, data: Path) -> Path:
    """A model whose first layer is quantized, and whose second one the user excluded."""
    onnx.save(conv_model(), tmp_path / "float.onnx")
    recipe = Recipe(selection=Selection(nodes_to_exclude=("conv2",)))
    quantize_model(tmp_path / "float.onnx", data, tmp_path / "half.onnx", QuantizeOptions(recipe=recipe))
    return tmp_path / "half.onnx"


def again(path: Path, data: Path | FileData, existing: Existing, **recipe: object) -> QuantizeReport:
    options = QuantizeOptions(recipe=Recipe(existing=existing, **recipe))
    return quantize_model(path, data, path.with_name("again.onnx"), options)


def test_it_is_refused_with_the_ways_out(half: Path, data: Path) -> None:
    for job in (
        lambda: quantize_model(half, data, half.with_name("again.onnx")),
        lambda: calibrate(half, data),
        lambda: list_matches(half),
    ):
        with pytest.raises(UsageError, match="it has 3 Q/DQ nodes") as caught:
            job()
        assert caught.value.hint is not None
        for way in ("--existing keep", "--existing replace", "qdqtool strip"):
            assert way in caught.value.hint
    assert not half.with_name("again.onnx").exists()


@pytest.mark.parametrize("name", ["digits_cnn", "digits_transformer"])
@pytest.mark.parametrize("mode", ["int8", "int4", "int8-weight-only"])
def test_keeping_what_quantize_made_changes_no_byte(name: str, mode: str, tmp_path: Path) -> None:
    """In `digits_cnn` the last layer has too few channels, which is seen only beside the layers that have more."""
    data = FileData(path=SAMPLES / name / "calibration.npz", samples=8)
    made = tmp_path / "q.onnx"
    quantize_model(SAMPLES / name / "model.onnx", data, made, QuantizeOptions(recipe=Recipe(quantize_mode=mode)))
    report = again(made, data, Existing.KEEP, quantize_mode=mode)
    assert (report.quantized, report.existing, report.accuracy) == ((), "keep", None)
    assert made.with_name("again.onnx").read_bytes() == made.read_bytes()


def test_keeping_quantizes_what_is_float_and_touches_nothing_else(half: Path, data: Path) -> None:
    report = again(half, data, Existing.KEEP)
    assert [pair.tensor for pair in report.quantized] == ["r", "v"]
    assert not any(step.applied for step in report.preparation)
    assert report.corrected == ()
    changes = diff_models(half, half.with_name("again.onnx"))
    assert (changes.preserved, changes.same, len(changes.added)) == (True, 2, 2)
    whole = half.with_name("again.onnx").rename(half.with_name("whole.onnx"))
    assert again(whole, data, Existing.KEEP).quantized == ()


def test_keeping_leaves_float_what_is_excluded_again(half: Path, data: Path) -> None:
    again(half, data, Existing.KEEP, selection=Selection(nodes_to_exclude=("conv2",)))
    assert half.with_name("again.onnx").read_bytes() == half.read_bytes()


def test_replacing_quantizes_the_float_model(half: Path, data: Path) -> None:
    report = again(half, data, Existing.REPLACE)
    assert [pair.tensor for pair in report.quantized] == ["x", "w", "r", "v"]
    assert report.existing == "replace"
    x = {"x": np.load(data)["x"][:1]}
    found = run(onnx.load(half.with_name("again.onnx")), x)[0]
    assert np.abs(found - run(conv_model(), x)[0]).max() < 0.1 * np.abs(found).max()


def test_a_float_model_is_neither_kept_nor_replaced(data: Path, tmp_path: Path) -> None:
    onnx.save(conv_model(), tmp_path / "float.onnx")
    for existing in Existing:
        assert again(tmp_path / "float.onnx", data, existing).existing is None


def test_nothing_can_be_saved_of_a_run_that_there_was_not(half: Path, data: Path) -> None:
    again(half, data, Existing.KEEP)
    whole = half.with_name("again.onnx").rename(half.with_name("whole.onnx"))
    options = QuantizeOptions(recipe=Recipe(existing=Existing.KEEP), plan_file=half.with_name("plan.json"))
    with pytest.raises(UsageError, match="nothing is left to quantize"):
        quantize_model(whole, data, half.with_name("again.onnx"), options)


def test_the_notes_of_pairs_that_stay_stay_too(half: Path) -> None:
    model = load_model(half)
    model.proto.metadata_props.add(key=PREPARATION_KEY, value="old")
    new = {PREPARATION_KEY: "new", CALIBRATION_KEY: '{"random": false}', "other": "new"}
    assert notes_beside(model, new) == {"other": "new"}
    random = {CALIBRATION_KEY: '{"random": true}'}
    assert notes_beside(model, random) == random
