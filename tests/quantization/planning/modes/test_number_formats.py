"""The number formats that quantize takes, and what it says of those that a target does not."""

from pathlib import Path

import pytest
from support.paths import ROOT

from qdqtool.errors import ArgumentError, GateError, UsageError
from qdqtool.jobs.build import build_engine
from qdqtool.jobs.check import check_model
from qdqtool.jobs.quantize import QuantizeOptions, quantize_model
from qdqtool.quantization.planning.recipe import Recipe
from qdqtool.samples.request import FileData

SAMPLE = ROOT / "sample_models" / "digits_cnn"
DATA = FileData(path=SAMPLE / "calibration.npz", samples=32)


def quantize(folder: Path, mode: str, target: str = "tensorrt") -> Path:
    options = QuantizeOptions(recipe=Recipe(quantize_mode=mode, target=target))
    quantize_model(SAMPLE / "model.onnx", DATA, folder / "q.onnx", options)
    return folder / "q.onnx"


@pytest.mark.slow(reason="quantizes and builds every mode")
@pytest.mark.builder
@pytest.mark.parametrize("mode", ["fp8", "float8e4m3fn"])
def test_fp8_is_exact_in_the_reference_and_runs_in_fp8_kernels(tmp_path: Path, mode: str) -> None:
    path = quantize(tmp_path, mode)
    report = check_model(path, baseline=SAMPLE / "model.onnx", data=SAMPLE / "test.npz")
    assert report.passed
    assert report.qdq.checked == report.qdq.total == 24
    built = build_engine(path, tmp_path / "e", backend="tensorrt-rtx")
    assert built.planned == built.achieved == {"float8e4m3fn": 8}


@pytest.mark.slow(reason="quantizes and checks a sample model twice")
def test_sixteen_bits_for_onnx_runtime_are_finer_than_eight(tmp_path: Path) -> None:
    fine, coarse = (
        check_model(quantize(tmp_path, mode, "ort-cpu"), baseline=SAMPLE / "model.onnx") for mode in ("int16", "int8")
    )
    assert fine.passed
    assert fine.outputs[0].sqnr_db is not None
    assert coarse.outputs[0].sqnr_db is not None
    assert fine.outputs[0].sqnr_db > coarse.outputs[0].sqnr_db


@pytest.mark.parametrize(
    ("mode", "message", "alternative"),
    [
        ("float8e5m2", "tensorrt takes no float8e5m2", "nearest alternative: float8e4m3fn"),
        ("int16", "tensorrt takes no int16", "nearest alternative: none"),
        ("int2", "tensorrt takes no int2", "nearest alternative: int4"),
    ],
)
def test_what_the_target_does_not_take_is_refused_with_the_nearest(
    tmp_path: Path, mode: str, message: str, alternative: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        quantize(tmp_path, mode)
    assert alternative in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_what_the_target_takes_for_weights_only_is_refused_by_the_linter(tmp_path: Path) -> None:
    with pytest.raises(GateError, match="QT405"):
        quantize(tmp_path, "float4e2m1")
    assert list(tmp_path.iterdir()) == []


def test_unknown_and_unsigned_modes_list_the_legal_ones() -> None:
    with pytest.raises(
        ArgumentError, match=r"'uint8' is unknown; legal: fp8, fp8-weight-only, int4, .*; did you mean 'int8'"
    ):
        Recipe(quantize_mode="uint8")
