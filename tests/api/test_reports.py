"""The keyword ``reports`` writes what ``--report`` writes."""

from pathlib import Path
from typing import Any

import onnx
import pytest
from support.paths import ROOT

import qdqtool as qdq
from qdqtool.errors import ArgumentError, GateError, OutputError

SAMPLE = ROOT / "sample_models" / "digits_cnn"
MODEL, DATA = SAMPLE / "model.onnx", SAMPLE / "calibration.npz"


def test_a_function_writes_its_report(tmp_path: Path):
    pytest.importorskip("onnxruntime")
    files: dict[Any, Any] = {each: tmp_path / each for each in ("html", "json", "text")}
    report = qdq.quantize_model(MODEL, DATA, tmp_path / "m.onnx", samples=8, reports=files)

    assert "<h1>m.onnx</h1>" in files["html"].read_text()
    qdq.write_page([files["json"]], tmp_path / "page.html")
    written = qdq.write_page([report], tmp_path / "held.html")
    assert written.reports == ("QuantizeReport",)
    assert (tmp_path / "page.html").stat().st_size == pytest.approx((tmp_path / "held.html").stat().st_size, abs=200)
    assert "quantized" in files["text"].read_text()


def test_a_model_in_memory_has_a_page(tmp_path: Path):
    pytest.importorskip("onnxruntime")
    qdq.quantize_model(onnx.load(MODEL), DATA, samples=8, reports={"html": tmp_path / "p.html"})
    assert "<h1>a model</h1>" in (tmp_path / "p.html").read_text()


def test_a_missed_goal_is_written(tmp_path: Path):
    pytest.importorskip("onnxruntime")
    with pytest.raises(GateError):
        qdq.quantize_model(
            MODEL, DATA, tmp_path / "m.onnx", samples=8, min_sqnr=190, reports={"html": tmp_path / "p.html"}
        )
    assert [each.name for each in tmp_path.iterdir()] == ["p.html"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("page.html", "reports is 'page.html'; it must be a dict"),
        ({"pdf": "x"}, "reports has format 'pdf'; legal: 'text', 'json', 'html'"),
        ({"html": 3}, r"reports\['html'\] is 3; it must be a path"),
    ],
)
def test_wrong_kinds_are_refused(given: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        qdq.check_model(MODEL, reports=given)


def test_a_missing_folder_is_refused_before_the_model_is_read(tmp_path: Path):
    with pytest.raises(OutputError, match="does not exist"):
        qdq.check_model("absent.onnx", reports={"html": tmp_path / "absent" / "p.html"})
