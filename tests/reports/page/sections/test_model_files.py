"""The files of the models, each with size and digest as every report read it."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, sentences, states, table
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import (
    ALL,
    BUILD,
    FLOAT_FILE,
    INSPECT,
    QUANTIZED_FILE,
    REFUSED,
    SENSITIVITY,
    VALIDATE,
    edited,
)

from qdqtool.reports.page.sections.model_files import blocks


def rows(folder: Path, **documents: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table(blocks_of(blocks, folder, **documents)).rows]


def of_quantized(source: str, version: str, kind: str, path: str) -> list[list[str]]:
    """The rows of the quantized model with its external data."""
    head = [source, version, kind]
    return [
        [*head, path, "1,000", "a" * 64],
        [*head, "net.data", "5", "b" * 64],
        [*head, "big", "9", "not computed: large external data"],
    ]


def test_quantize_and_check_have_two_models_each(tmp_path: Path):
    assert rows(tmp_path, quantize=ALL["quantize"], check=ALL["check"]) == [
        ["quantize.json", "0.1.0", "model", "net.onnx", "4,000", "f" * 64],
        *of_quantized("quantize.json", "0.1.0", "output", "out/net.int8.onnx"),
        *of_quantized("check.json", "0.1.0", "model", "net.int8.onnx"),
        ["check.json", "0.1.0", "baseline", "net.onnx", "4,000", "f" * 64],
    ]


def test_every_report_of_a_model_has_its_file(tmp_path: Path):
    file = {"model_file": QUANTIZED_FILE, "qdqtool_version": "0.2.0"}
    for name, report in {"build": BUILD, "build_": REFUSED, "inspect": INSPECT}.items():
        expected = of_quantized(f"{name}.json", "0.2.0", "model", "net.int8.onnx")
        assert rows(tmp_path, **{name: report | file}) == expected
    assert rows(tmp_path, sensitivity=SENSITIVITY | {"model_file": FLOAT_FILE}) == [
        ["sensitivity.json", "unknown", "model", "net.onnx", "4,000", "f" * 64]
    ]


def test_validate_has_the_file_of_this_model_only(tmp_path: Path):
    def several(report: Any) -> None:
        (model,) = report["models"]
        report["models"] = [{**model, "file": QUANTIZED_FILE}, {**model, "path": "other.onnx", "file": FLOAT_FILE}]

    report = edited(VALIDATE, several) | {"qdqtool_version": "0.3.0"}
    documents = {"validate": report, "build": BUILD | {"model_file": QUANTIZED_FILE}}
    assert rows(tmp_path, **documents)[3:] == of_quantized("validate.json", "0.3.0", "model", "out/net.int8.onnx")


def test_a_digest_that_was_not_computed_is_unknown_and_bytes_sort_as_numbers(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=ALL["check"] | {"baseline_file": None}))
    assert states(found, "SHA-256") == [None, None, "unknown"]
    assert sentences(found) == ["SHA-256"]
    assert [cell.sort for cell in column(found, "Bytes")] == [1000.0, 5.0, 9.0]


def test_names_of_files_are_escaped(tmp_path: Path):
    assert rows(tmp_path, inspect=INSPECT | {"model": HOSTILE, "model_file": QUANTIZED_FILE})[0][3] == ESCAPED


def test_reports_of_earlier_versions_have_no_files(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, build=BUILD, validate=VALIDATE, inspect=INSPECT) == ()
