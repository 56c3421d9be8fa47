"""``write_page``: the file is written whole or not at all, and real reports of the sample model make a page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.command import qdqtool
from support.paths import ROOT
from support.saved_reports import ALL, SECOND, edited, save

from qdqtool.errors import OutputError, UsageError
from qdqtool.reports.page.write import write_page

SAMPLE = ROOT / "sample_models" / "digits_cnn"
DATA = ("--calib-data", SAMPLE / "calibration.npz")


def test_what_is_returned_is_what_was_written(tmp_path: Path):
    paths = save(tmp_path, **ALL)
    report = write_page([str(path) for path in paths], tmp_path / "page.html")
    assert report.bytes == (tmp_path / "page.html").stat().st_size
    assert (report.verdict, report.model) == ("passed", "out/net.int8.onnx")


def test_of_two_models_the_first_is_judged_and_the_second_named(tmp_path: Path):
    failed = SECOND | {"check": edited(SECOND["check"], lambda it: it.update(passed=False, failures=["no"]))}
    (tmp_path / "second").mkdir()
    first, second = save(tmp_path, **ALL), save(tmp_path / "second", **failed)
    report = write_page(first, tmp_path / "page.html", against=second)

    assert (report.verdict, report.model) == ("passed", "out/net.int8.onnx")
    assert report.against is not None
    assert (report.against.verdict, report.against.model) == ("failed", "out/net.fp8.onnx")
    assert report.against.reason == "Numbers failed: no."
    assert report.reports == tuple(map(str, (*first, *second)))
    assert write_page(first, tmp_path / "page.html").against is None
    with pytest.raises(UsageError, match="is also an input"):
        write_page(first, second[0], against=second)


def test_reports_told_apart_by_digests_make_the_page_that_naming_them_makes(tmp_path: Path):
    first = {"a": ALL["quantize"], "a_check": ALL["check"]}
    second = {"b": SECOND["quantize"], "b_check": SECOND["check"]}
    paths = save(tmp_path, **first), save(tmp_path, **second)
    named = write_page(paths[0], tmp_path / "named.html", against=paths[1])
    found = write_page([path for both in zip(*paths, strict=True) for path in both], tmp_path / "found.html")

    assert (tmp_path / "named.html").read_bytes() == (tmp_path / "found.html").read_bytes()
    assert named.against == found.against


def test_an_input_is_never_overwritten_and_a_refusal_writes_nothing(tmp_path: Path):
    (path,) = save(tmp_path, check=ALL["check"])
    before = path.read_bytes()

    with pytest.raises(UsageError, match="is also an input"):
        write_page([path], path)
    with pytest.raises(OutputError, match="does not exist"):
        write_page([path], tmp_path / "absent" / "page.html")
    path.write_text("{}")
    with pytest.raises(UsageError, match="is not a report"):
        write_page([path], tmp_path / "page.html")
    assert before
    assert [each.name for each in tmp_path.iterdir()] == ["check.json"]


@pytest.mark.slow(reason="every command, and a page of each")
def test_reports_that_the_commands_print_make_a_page(tmp_path: Path):
    pytest.importorskip("onnxruntime")
    model, quantized = SAMPLE / "model.onnx", tmp_path / "int8.onnx"
    lines = {
        "quantize": ("quantize", model, *DATA, "-o", quantized),
        "check": ("check", quantized, "--baseline", model, *DATA),
        "validate": ("validate", quantized),
        "inspect": ("inspect", quantized),
        "sensitivity": ("sensitivity", model, *DATA),
    }
    for name, words in lines.items():
        done = qdqtool(*words, "--output-format", "json")
        (tmp_path / f"{name}.json").write_text(done.out)
        assert done.code == 0, done.err
    told = [tmp_path / f"{name}.json" for name in lines]

    report = write_page(told, tmp_path / "page.html")
    assert (report.verdict, report.reason) == ("passed", "Every gate held. Not asked for: engine.")
    page = (tmp_path / "page.html").read_text()
    checked = json.loads((tmp_path / "check.json").read_text())
    for boundary in checked["boundaries"]:
        assert f">{boundary['tensor']}<" in page
    assert f"{checked['outputs'][0]['sqnr_db']:.2f} dB" in page
    checked["gates"][-1]["passed"] = False
    (tmp_path / "missed.json").write_text(json.dumps(checked))
    assert write_page([*told, tmp_path / "missed.json"], tmp_path / "page.html").verdict == "failed"


def test_a_page_is_made_of_types_that_import_nothing_heavy():
    code = "import sys, qdqtool.reports.page.write; print({'numpy', 'onnx', 'onnxruntime'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "set()\n"
