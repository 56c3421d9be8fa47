"""``--report FORMAT=FILE``: checked before the command runs, written whatever the verdict is."""

import json
from pathlib import Path

import pytest
from support.command import qdqtool
from support.paths import ROOT

SAMPLE = ROOT / "sample_models" / "digits_cnn"
DATA = ("--calib-data", SAMPLE / "calibration.npz")


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnxruntime")
    folder = tmp_path_factory.mktemp("quantized")
    words = ("--report", f"html={folder / 'q.html'}", "--report", f"json={folder / 'q.json'}")
    done = qdqtool("quantize", SAMPLE / "model.onnx", *DATA, *words, "-o", folder / "m.onnx", "--output-format", "json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == json.loads((folder / "q.json").read_text())
    return folder / "m.onnx"


def test_the_page_is_that_of_the_printed_report(quantized: Path, tmp_path: Path):
    made = (quantized.parent / "q.html").read_text()
    saved = tmp_path / "this run"
    saved.write_bytes((quantized.parent / "q.json").read_bytes())
    assert qdqtool("report", saved, "-o", tmp_path / "page.html").code == 0
    assert (tmp_path / "page.html").read_text() == made


def test_a_missed_gate_writes_the_page_too(quantized: Path, tmp_path: Path):
    page = tmp_path / "p.html"
    words = ("--baseline", SAMPLE / "model.onnx", "--min-sqnr", "90", "--report", f"html={page}")
    done = qdqtool("check", quantized, *words)

    assert done.code == 1
    assert '<header class="verdict failed">' in page.read_text()
    assert "min-sqnr is 90 dB" in page.read_text()


@pytest.mark.slow(reason="a search")
def test_a_search_without_success_leaves_its_reason(tmp_path: Path):
    pytest.importorskip("onnxruntime")
    words = ("--min-sqnr", "190", "-o", tmp_path / "m.onnx", "--report", f"html={tmp_path / 'p.html'}")
    done = qdqtool("quantize", SAMPLE / "model.onnx", *DATA, *words)
    assert (done.code, [each.name for each in tmp_path.iterdir()]) == (1, ["p.html"])
    assert "no quantized model was found" in (tmp_path / "p.html").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report", "pdf=x"], "'pdf=x' is not FORMAT=FILE with one of text, json, "),
        (["--report", "htm=x"], "did you mean 'html'"),
        (["--report", "html"], "'html' has no file name; write html=FILE"),
        (["--report", "html=absent/x"], "output folder absent does not exist"),
        (["--report", "html=m.onnx"], "output m.onnx is also an input"),
        (["--report", "html=b.onnx", "--baseline", "b.onnx"], "output b.onnx is also an input"),
        (["--report", "html=x", "--report", "json=x"], "two outputs have the same name"),
        (["--report", "html=x", "--save-outputs", "x"], "--report x is the file of two outputs"),
    ],
)
def test_wrong_files_are_refused_before_anything_is_read(words: list[str], said: str, tmp_path: Path):
    for name in ("m.onnx", "b.onnx"):
        (tmp_path / name).write_text("no model")
    done = qdqtool("check", "m.onnx", *words, cwd=tmp_path)
    assert done.code == 2
    assert said in done.err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["b.onnx", "m.onnx"]


def test_list_matches_has_no_report(tmp_path: Path):
    done = qdqtool("quantize", SAMPLE / "model.onnx", "--list-matches", "--report", f"html={tmp_path / 'p.html'}")
    assert done.code == 2
    assert "cannot be used with --list-matches" in done.err


def test_validate_writes_a_page_beside_its_other_formats(quantized: Path, tmp_path: Path):
    words = ("--report", f"html={tmp_path / 'p.html'}", "--report", f"sarif={tmp_path / 'p.sarif'}")
    assert qdqtool("validate", quantized, *words).code == 0
    assert "<h1>m.onnx</h1>" in (tmp_path / "p.html").read_text()
    assert json.loads((tmp_path / "p.sarif").read_text())["version"] == "2.1.0"


def test_a_recipe_of_convert_writes_no_report_elsewhere(tmp_path: Path):
    recipe, page = tmp_path / "r.toml", tmp_path / "page.html"
    recipe.write_text('report = ["html=page.html"]\nno-build = true\n')
    page.write_text("precious")
    done = qdqtool("convert", SAMPLE / "model.onnx", *DATA, "--recipe", recipe, "-o", tmp_path / "out")
    assert done.code == 2
    assert "report is allowed on the command line only" in done.err
    assert "`--report`" in done.err
    assert page.read_text() == "precious"
