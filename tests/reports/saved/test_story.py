"""Reports are joined if they are of one model, whatever folder each was made from."""

from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import ALL, CHECK, CONVERT, INSPECT, QUANTIZE, QUANTIZED_FILE, SENSITIVITY, VALIDATE, save

from qdqtool.errors import UsageError
from qdqtool.reports.saved.identity import same_file
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import Story, join


def joined(folder: Path, **documents: Any) -> Story:
    return join(read_reports(save(folder, **documents)))


def test_the_models_are_named_by_their_longest_paths(tmp_path: Path):
    story = joined(tmp_path, **ALL)
    assert (story.float_model, story.quantized_model) == ("net.onnx", "out/net.int8.onnx")
    assert joined(tmp_path, inspect=INSPECT | {"groups": []}).float_model == "net.int8.onnx"
    assert joined(tmp_path, validate=VALIDATE).quantized_model == "out/net.int8.onnx"


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("m.onnx", "/a/b/m.onnx", True),
        ("./out/m.onnx", "/a/out/m.onnx", True),
        ("../out/m.onnx", "out/m.onnx", True),
        ("C:\\a\\out\\m.onnx", "out/m.onnx", True),
        ("a/m.onnx", "b/m.onnx", False),
        ("a/m.onnx", "a/n.onnx", False),
        ("am.onnx", "m.onnx", False),
    ],
)
def test_paths_of_the_same_file(first: str, second: str, same: bool):
    assert same_file(first, second) == same_file(second, first) == same


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({"a": CHECK, "b": QUANTIZE | {"output": "other.onnx"}}, "the quantized model is net.int8.onnx in a.json, but"),
        ({"a": CHECK, "b": SENSITIVITY | {"model": "other.onnx"}}, "the float model is net.onnx in a.json, but other"),
        ({"a": CHECK | {"model": "x/net.int8.onnx"}, "b": QUANTIZE}, "the quantized model is x/net.int8"),
        (
            {"a": CHECK | {"model": "other.onnx"}, "b": VALIDATE},
            "b.json is about out/net.int8.onnx, the other reports about",
        ),
        ({"a": QUANTIZE, "b": QUANTIZE}, "a.json and b.json are two reports of `qdqtool quantize`"),
        ({"a": CONVERT, "b": QUANTIZE}, "a.json, step quantize and b.json are two reports of `qdqtool quantize`"),
        ({"a": QUANTIZE, "b": INSPECT | {"bytes": 999}}, "has 1000 bytes in a.json, 999 bytes in b.json"),
        ({"a": QUANTIZE, "b": SENSITIVITY | {"mode": "fp8"}}, "a.json is about mode int8, b.json about mode fp8"),
        ({"a": VALIDATE | {"models": [{"path": n, "targets": [], "error": None} for n in "xy"]}}, "about 2 models"),
    ],
)
def test_reports_of_two_models_are_refused(documents: dict[str, Any], message: str, tmp_path: Path):
    with pytest.raises(UsageError, match=message):
        joined(tmp_path, **documents)


def test_a_model_in_two_folders_is_one_if_its_digests_are_equal(tmp_path: Path):
    quantize = QUANTIZE | {"output": "/a/net.int8.onnx", "output_file": QUANTIZED_FILE}
    moved = {"model": "/b/net.int8.onnx", "baseline": None, "model_file": QUANTIZED_FILE}
    changed = moved | {"model_file": {**QUANTIZED_FILE, "sha256": "00" * 32}}

    assert joined(tmp_path, a=quantize, b=CHECK | moved).quantized_model == "/a/net.int8.onnx"
    with pytest.raises(UsageError, match="do not belong together"):
        joined(tmp_path, a=quantize, b=CHECK | changed)
    with pytest.raises(UsageError, match="do not belong together"):
        joined(tmp_path, a=quantize, b=CHECK | moved | {"model_file": None})


def test_a_page_needs_a_report():
    with pytest.raises(UsageError, match="at least one report"):
        join(())


def test_other_models_of_a_validate_report_are_left_out(tmp_path: Path):
    other = {"path": "other.onnx", "targets": [], "error": "damaged"}
    story = joined(tmp_path, check=CHECK, validate=VALIDATE | {"models": [other, *VALIDATE["models"]]})
    assert [model.path for _, model in story.validated()] == ["out/net.int8.onnx"]
