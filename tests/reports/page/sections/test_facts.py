"""The facts of two models: values of each, and differences worked out by hand."""

from pathlib import Path
from typing import Any

from support.pairs import pair_of, rows_of, said_in, table_of
from support.saved_reports import ALL, BUILD, CHECK, QUANTIZED_FILE, SECOND, VALIDATE, edited

from qdqtool.reports.page.sections.facts import compared


def facts(folder: Path, first: Any, second: Any) -> dict[str, list[str]]:
    return rows_of(compared(pair_of(folder, first, second)))


def test_every_fact_of_two_models(tmp_path: Path):
    second = SECOND | {
        "check": edited(SECOND["check"], lambda it: it["outputs"][0].update(sqnr_db=30.75)),
        "quantize": edited(
            SECOND["quantize"],
            lambda it: (
                it["accuracy"]["outputs"][0].update(sqnr_db=42.0),
                it.update(skipped=[], qdqtool_version="9.9"),
            ),
        ),
        "inspect": edited(SECOND["inspect"], lambda it: it["groups"][0].update(count=4)),
    }
    found = facts(tmp_path, ALL, second)

    assert found == {
        "Verdict": ["passed", "warning", "differs"],
        "Mode": ["int8", "fp8", "differs"],
        "Target": ["tensorrt", "tensorrt", "same"],
        "Opset": ["17", "17", "same"],
        "Calibration method": ["max", "max", "same"],
        "Worst output SQNR, by check": ["41.25 dB", "30.75 dB", "+10.50 dB"],
        "Worst output SQNR, by quantize": ["40.50 dB", "42.00 dB", "-1.50 dB"],
        "Quantized tensors": ["1", "1", "0"],
        "Unquantized nodes": ["1", "0", "+1"],
        "QuantizeLinear nodes": ["1", "4", "-3"],
        "DequantizeLinear nodes": ["0", "0", "0"],
        "Size of the model": ["1 kB", "900 bytes", "+100 bytes"],
        "Size of the engine": ["5 kB", "4.4 kB", "+600 bytes"],
        "Nodes that run as planned": ["1 of 1", "0 of 1", "+1"],
        "Of these in int8": ["1 of 1", "0 of 0", "+1"],
        "Of these in fp8": ["0 of 0", "0 of 1", "0"],
        "Findings: error": ["0", "0", "0"],
        "Findings: warning": ["1", "1", "0"],
        "Findings: info": ["0", "0", "0"],
        "Quantized model": ["out/net.int8.onnx", "out/net.fp8.onnx", "differs"],
        "SHA-256 of the quantized model": ["aaaaaaaaaaaa…", "cccccccccccc…", "differs"],
        "Float model": ["net.onnx", "net.onnx", "same"],
        "SHA-256 of the float model": ["ffffffffffff…", "ffffffffffff…", "same"],
        "Calibration data": ["data.npz, 8 samples", "data.npz, 8 samples", "same"],
        "Data of the checks": ["data.npz, 8 samples", "data.npz, 8 samples", "same"],
        "qdqtool": ["0.1.0", "0.1.0; 9.9", "differs"],
        "Reference": ["onnxruntime 1.2.3, profile semantic, on a processor"] * 2 + ["same"],
        "Builder": ["tensorrt-rtx 1.7 for 8.9"] * 2 + ["same"],
    }


def test_the_verdicts_stand_first_in_their_colours(tmp_path: Path):
    failed = SECOND | {"check": SECOND["check"] | {"passed": False, "failures": ["no"]}}
    first = table_of(compared(pair_of(tmp_path, ALL, failed))).rows[0]
    assert [(cell.text, cell.state) for cell in first] == [
        ("Verdict", None),
        ("passed", "passed"),
        ("failed", "failed"),
        ("differs", None),
    ]


def test_a_method_that_was_asked_for_is_told_like_one_that_was_chosen(tmp_path: Path):
    asked = edited(SECOND["quantize"], lambda it: it["calibration"].update(chosen="", method="entropy"))
    found = facts(tmp_path, {"quantize": ALL["quantize"]}, {"quantize": asked})
    assert found["Calibration method"] == ["max", "entropy", "differs"]


def test_a_model_of_another_tool_has_what_its_reports_say(tmp_path: Path):
    foreign = {name: SECOND[name] for name in ("check", "build", "validate", "inspect")}
    found = facts(tmp_path, ALL, foreign)

    assert found["Mode"] == ["int8", "unknown", "\N{EN DASH}"]
    assert found["Worst output SQNR, by check"] == ["41.25 dB", "41.25 dB", "0.00 dB"]
    assert found["Worst output SQNR, by quantize"] == ["40.50 dB", "unknown", "\N{EN DASH}"]
    assert found["Quantized tensors"] == ["1", "unknown", "\N{EN DASH}"]
    assert found["QuantizeLinear nodes"] == ["1", "1", "0"]
    assert found["Size of the model"] == ["1 kB", "900 bytes", "+100 bytes"]
    assert found["Opset"] == ["17", "17", "same"]


def test_what_no_report_says_of_either_model_has_no_row(tmp_path: Path):
    found = facts(tmp_path, {"check": ALL["check"]}, {"check": SECOND["check"]})
    assert not {"Mode", "Size of the engine", "Findings: error", "Builder", "Nodes that run as planned"} & {*found}


def test_what_cannot_be_compared_says_why_in_place_of_the_difference(tmp_path: Path):
    second = {
        "check": edited(SECOND["check"], lambda it: it["data"].update(samples=2)),
        "quantize": edited(SECOND["quantize"], lambda it: it["calibration"].update(source="other.npz")),
        "build": SECOND["build"] | {"version": "1.8"},
        "validate": edited(SECOND["validate"], lambda it: it["models"][0]["targets"][0].update(target="onnx")),
    }
    found = facts(tmp_path, ALL, second)

    assert found["Worst output SQNR, by check"] == ["41.25 dB", "41.25 dB", "other samples"]
    assert found["Worst output SQNR, by quantize"][2] == "other data"
    assert found["Size of the engine"][2] == "other builder"
    assert found["Nodes that run as planned"][2] == "other builder"
    assert found["Findings: warning"] == ["1", "1", "other targets"]
    targets = facts(tmp_path, ALL, {"build": SECOND["build"] | {"targets": ["8.9", "12.0"]}})
    assert targets["Size of the engine"] == ["5 kB", "4.4 kB", "other targets"]
    assert targets["Nodes that run as planned"] == ["1 of 1", "0 of 1", "+1"]


def test_the_builds_of_the_same_builder_are_compared(tmp_path: Path):
    old, new = SECOND["build"] | {"version": "1.6", "bytes": 1}, SECOND["build"] | {"bytes": 4999}
    assert facts(tmp_path, ALL, {"old": old, "new": new})["Size of the engine"] == ["5 kB", "5 kB", "+1 byte"]


def test_a_builder_that_shows_nothing_counts_nothing(tmp_path: Path):
    silent = SECOND["build"] | {"evidence": "none"}
    assert facts(tmp_path, {"build": BUILD}, {"build": silent})["Nodes that run as planned"] == [
        "1 of 1",
        "unknown",
        "\N{EN DASH}",
    ]


def test_the_worst_output_counts_and_exact_ones_are_best(tmp_path: Path):
    def outputs(*values: Any) -> Any:
        known = CHECK["outputs"][0]
        made = [known | {"name": str(at), "sqnr_db": value, "exact": value is None} for at, value in enumerate(values)]
        return {"check": ALL["check"] | {"outputs": made}}

    name = "Worst output SQNR, by check"
    assert facts(tmp_path, outputs(50.0, 12.5, None), outputs(20.0))[name] == ["12.50 dB", "20.00 dB", "-7.50 dB"]
    assert facts(tmp_path, outputs(None), outputs(20.0))[name] == ["exact", "20.00 dB", "\N{EN DASH}"]
    unknown = edited(outputs(20.0, None), lambda it: it["check"]["outputs"][1].update(exact=False))
    assert facts(tmp_path, unknown, outputs(20.0))[name][0] == "unknown"
    codes = edited(outputs(20.0, 1.0), lambda it: it["check"]["outputs"][1].update(agreement=0.5))
    assert facts(tmp_path, codes, outputs(20.0))[name][0] == "20.00 dB"


def test_one_file_with_two_builds_is_told(tmp_path: Path):
    one, two = BUILD | {"model_file": QUANTIZED_FILE}, BUILD | {"model_file": QUANTIZED_FILE, "version": "1.8"}
    found = compared(pair_of(tmp_path, {"build": one}, {"build": two}))
    assert said_in(found) == ["A and B are the same file: only their data, versions and builds can differ."]
    assert rows_of(found)["Builder"] == ["tensorrt-rtx 1.7 for 8.9", "tensorrt-rtx 1.8 for 8.9", "differs"]


def test_findings_of_two_reports_count_once(tmp_path: Path):
    finding = VALIDATE["models"][0]["targets"][0]["findings"][0]
    quantize = ALL["quantize"] | {"findings": [finding, finding | {"message": "another", "severity": "error"}]}
    found = facts(tmp_path, ALL | {"quantize": quantize}, SECOND)
    assert found["Findings: warning"] == ["1", "1", "0"]
    assert found["Findings: error"] == ["1", "0", "+1"]
