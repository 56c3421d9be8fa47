"""The files that were written and read, each digest once, with the commands whose reports have it."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, column, sentences, states, table
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import (
    ALL,
    BUILD,
    CONVERT,
    FLOAT_FILE,
    INSPECT,
    LAYERS,
    QUANTIZED_FILE,
    REFUSED,
    SENSITIVITY,
    VALIDATE,
    edited,
)

from qdqtool.reports.page.sections.model_files import blocks


def rows(folder: Path, **documents: Any) -> list[list[str]]:
    return [[cell.text for cell in row] for row in table(blocks_of(blocks, folder, **documents)).rows]


def of_quantized(path: str, commands: str) -> list[list[str]]:
    """The rows of the quantized model with its external data."""
    return [
        [path, "model", "1,000", "a" * 64, commands],
        ["net.data", "weights of the model", "5", "b" * 64, commands],
        ["big", "weights of the model", "9", "not computed: large external data", commands],
    ]


def test_a_digest_that_several_reports_have_is_shown_once(tmp_path: Path):
    assert rows(tmp_path, quantize=ALL["quantize"], check=ALL["check"]) == [
        ["net.onnx", "float model", "4,000", "f" * 64, "quantize, check"],
        *of_quantized("out/net.int8.onnx", "quantize, check"),
    ]


def test_a_file_that_changed_between_two_reports_has_both_digests(tmp_path: Path):
    later = edited(BUILD, lambda it: it.update(model_file={"bytes": 7, "sha256": "c" * 64, "external_data": []}))
    found = rows(tmp_path, inspect=INSPECT | {"model_file": None}, build=BUILD | {"model_file": QUANTIZED_FILE})
    assert found == of_quantized("net.int8.onnx", "build")
    assert rows(tmp_path, build=later) == [["net.int8.onnx", "model", "7", "c" * 64, "build"]]


def test_every_report_of_a_model_has_its_file(tmp_path: Path):
    for name, report in {"build": BUILD, "build_": REFUSED, "inspect": INSPECT}.items():
        found = rows(tmp_path, **{name: report | {"model_file": QUANTIZED_FILE}})
        assert found == of_quantized("net.int8.onnx", name.strip("_"))
    assert rows(tmp_path, sensitivity=SENSITIVITY | {"model_file": FLOAT_FILE}) == [
        ["net.onnx", "float model", "4,000", "f" * 64, "sensitivity"]
    ]


def test_files_of_a_conversion_have_their_digests(tmp_path: Path):
    assert ["net.int8.onnx", "model", "1,000", "ab" * 32, "convert"] in rows(tmp_path, convert=CONVERT)


def test_validate_has_the_file_of_this_model_only(tmp_path: Path):
    def several(report: Any) -> None:
        (model,) = report["models"]
        report["models"] = [{**model, "file": QUANTIZED_FILE}, {**model, "path": "other.onnx", "file": FLOAT_FILE}]

    documents = {"validate": edited(VALIDATE, several), "build": BUILD | {"model_file": QUANTIZED_FILE}}
    assert rows(tmp_path, **documents) == of_quantized("net.int8.onnx", "build, validate")


def test_a_digest_that_was_not_computed_is_unknown_and_bytes_sort_as_numbers(tmp_path: Path):
    found = table(blocks_of(blocks, tmp_path, check=ALL["check"] | {"baseline_file": None}))
    assert states(found, "SHA-256") == [None, None, "unknown"]
    assert sentences(found) == ["SHA-256"]
    assert [cell.sort for cell in column(found, "Bytes")] == [1000.0, 5.0, 9.0]


def test_names_of_files_are_escaped(tmp_path: Path):
    assert rows(tmp_path, inspect=INSPECT | {"model": HOSTILE, "model_file": QUANTIZED_FILE})[0][0] == ESCAPED


def test_reports_of_earlier_versions_have_no_files(tmp_path: Path):
    assert blocks_of(blocks, tmp_path, build=BUILD, validate=VALIDATE, inspect=INSPECT) == ()


def test_the_model_that_layers_of_an_engine_were_compared_with_has_its_digest(tmp_path: Path):
    found = rows(tmp_path, layers=LAYERS | {"model_file": QUANTIZED_FILE})
    assert (found[0][0], found[0][-1]) == ("m.int8.onnx", "inspect LAYERS")
