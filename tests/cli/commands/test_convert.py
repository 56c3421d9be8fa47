"""``qdqtool convert`` as a user sees it."""

import json
import shutil
from pathlib import Path

import pytest
from support.command import qdqtool
from support.paths import ROOT

SAMPLE = ROOT / "sample_models" / "digits_cnn"
DATA = ("--calib-data", SAMPLE / "calibration.npz", "--samples", "20")
RECIPE = """
calib-data = "samples.npz"
samples = 20
no_build = true
calibration-method = "max"
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    shutil.copy(SAMPLE / "calibration.npz", tmp_path / "sub" / "samples.npz")
    path = tmp_path / "sub" / "r.toml"
    path.write_text(RECIPE)
    return path


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_stdout_and_file_have_the_same_report(tmp_path: Path):
    done = qdqtool(
        "convert", SAMPLE / "model.onnx", *DATA, "--no-build", "-o", tmp_path / "out", "--output-format", "json"
    )
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == json.loads((tmp_path / "out" / "report.json").read_text())
    assert json.loads(done.out)["schema_version"] == 1


@pytest.mark.parametrize(("limit", "is_told"), [((), True), (("--check-min-sqnr", "1"), False)])
def test_a_conversion_without_a_limit_on_the_accuracy_says_so(tmp_path: Path, limit: tuple[str, ...], is_told: bool):
    clipped = ("--calibration-method", "percentile", "--percentile", "95")  # 11 dB
    done = qdqtool("convert", SAMPLE / "model.onnx", *DATA, *clipped, "--no-build", *limit, "-o", tmp_path / "out")
    assert done.code == 0
    assert ("no limit on the accuracy was given" in done.out) is is_told
    assert f"  {'WARNING' if is_told else 'PASSED'}\n" in done.out


def test_a_missed_limit_is_told_with_the_report_of_its_step(tmp_path: Path):
    done = qdqtool(
        "convert", SAMPLE / "model.onnx", *DATA, "--no-build", "-o", tmp_path / "out", "--check-min-sqnr", "90"
    )

    assert done.code == 1
    assert done.err.startswith("error: check: output 'logits': min-sqnr is 90 dB, found ")
    assert "layers that make most of the noise" in done.out
    assert "FAILED at check" in done.out
    assert "build     not asked for" in done.out
    assert json.loads((tmp_path / "out" / "report.json").read_text())["failed"] == "check"


@pytest.mark.slow(reason="a search, then a check")
def test_the_limit_of_the_check_is_not_that_of_the_search(tmp_path: Path):
    """With ``--min-sqnr`` layers stay in float; with ``--check-min-sqnr`` none does."""
    words = ("convert", SAMPLE / "model.onnx", *DATA, "--no-build", "--output-format", "json")
    searched = json.loads(qdqtool(*words, "--min-sqnr", "50", "-o", tmp_path / "a").out)
    checked = json.loads(qdqtool(*words, "--check-min-sqnr", "50", "-o", tmp_path / "b").out)

    assert (searched["failed"], checked["failed"]) == (None, "check")
    pairs = [len(each["steps"][0]["report"]["quantized"]) for each in (searched, checked)]
    assert pairs[0] < pairs[1]


@pytest.mark.slow(reason="converts twice")
def test_a_recipe_means_the_same_as_its_options(tmp_path: Path, recipe: Path):
    """The recipe lies in another folder than the working directory: its paths are relative to its own."""
    words = ("--no-build", "--calibration-method", "max")
    for name, options in (("out", ("--recipe", recipe)), ("out2", (*DATA, *words))):
        done = qdqtool("convert", SAMPLE / "model.onnx", *options, "-o", tmp_path / name)
        assert done.code == 0, done.err
    first, second = files(tmp_path / "out"), files(tmp_path / "out2")
    assert first["model.int8.plan.json"] == second["model.int8.plan.json"]

    again = tmp_path / "again"
    shutil.move(tmp_path / "out", again)
    done = qdqtool("convert", SAMPLE / "model.onnx", "--recipe", recipe, "-o", tmp_path / "out")
    assert done.code == 0
    assert files(tmp_path / "out") == files(again)


def test_the_command_line_wins_over_a_recipe(tmp_path: Path, recipe: Path):
    words = ("--recipe", recipe, "--samples", "4", "--calibration-method", "percentile", "-o", tmp_path / "out")
    done = qdqtool("convert", SAMPLE / "model.onnx", *words, "--output-format", "json")
    used = json.loads(done.out)["steps"][0]["report"]["calibration"]
    assert (used["samples"], used["method"]) == (4, "percentile")


@pytest.mark.builder
@pytest.mark.slow(reason="builds an engine")
def test_shapes_of_a_recipe_reach_the_builder(tmp_path: Path, recipe: Path):
    pytest.importorskip("tensorrt_rtx")
    text = RECIPE.replace("no_build = true", 'opt-shapes = "image:3x1x8x8"\ncompute-capabilities = "8.9"')
    recipe.write_text(text)
    words = ("convert", SAMPLE / "model.onnx", "--recipe", recipe, "--output-format", "json")
    found = json.loads(qdqtool(*words, "-o", tmp_path / "out").out)["steps"][3]["report"]
    assert found["profiles"][0]["opt"] == [3, 1, 8, 8]
    wins = json.loads(qdqtool(*words, "-o", tmp_path / "out", "--opt-shapes", "image:2x1x8x8").out)
    assert wins["steps"][3]["report"]["profiles"][0]["opt"] == [2, 1, 8, 8]


@pytest.mark.builder
def test_a_refusing_builder_is_exit_1_and_leaves_the_model(tmp_path: Path):
    pytest.importorskip("tensorrt_rtx")
    words = ("--require-precision", "int8-weight-only>=100%", "--compute-capabilities", "8.9", "-o", tmp_path / "out")
    done = qdqtool("convert", SAMPLE / "model.onnx", *DATA, *words)

    assert done.code == 1
    assert done.err.startswith("error: build: int8-weight-only>=100%")
    assert "no engine was written" in done.out
    assert sorted(files(tmp_path / "out")) == [
        "model.int8.onnx",
        "model.int8.plan.json",
        "model.int8.ranges.json",
        "report.html",
        "report.json",
    ]


@pytest.mark.slow(reason="a conversion")
def test_findings_can_be_written_for_other_programs(tmp_path: Path):
    words = ("--validate-report", f"sarif={tmp_path / 'f.sarif'}", "--no-build", "-o", tmp_path / "out")
    assert qdqtool("convert", SAMPLE / "model.onnx", *DATA, *words, "-q").out == ""
    assert json.loads((tmp_path / "f.sarif").read_text())["version"] == "2.1.0"


def test_options_of_an_engine_do_not_go_with_no_build(tmp_path: Path, recipe: Path):
    """In a recipe they may stand: it serves both."""
    words = ("--no-build", "-o", tmp_path / "out")
    done = qdqtool("convert", SAMPLE / "model.onnx", *DATA, *words, "--timeout", "5")
    assert (done.code, done.err) == (2, "error: --timeout needs an engine, but --no-build builds none\n")
    recipe.write_text(f"{RECIPE}timeout = 5")
    assert qdqtool("convert", SAMPLE / "model.onnx", *words, "--recipe", recipe).code == 0
