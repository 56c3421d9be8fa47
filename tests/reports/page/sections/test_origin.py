"""Where the model comes from: data, versions and builders."""

from pathlib import Path
from typing import Any

from support.page_blocks import blocks_of, facts
from support.printed import ESCAPED, HOSTILE
from support.saved_reports import BUILD, CHECK, CONVERT, INSPECT, QUANTIZE, SENSITIVITY, VALIDATE, edited

from qdqtool.reports.blocks import State
from qdqtool.reports.page.sections.origin import blocks

RANDOM = edited(CHECK, lambda it: it["data"].update(seed=7, samples=1))


def told(folder: Path, **documents: Any) -> list[tuple[str, str, State | None]]:
    return facts(blocks_of(blocks, folder, **documents))


def named(name: str, found: list[tuple[str, str, State | None]]) -> list[tuple[str, State | None]]:
    return [(text, state) for each, text, state in found if each == name]


def test_each_report_adds_its_facts_in_this_order(tmp_path: Path):
    assert told(tmp_path, quantize=QUANTIZE, check=CHECK, build=BUILD, inspect=INSPECT) == [
        ("Float model", "net.onnx", None),
        ("Quantized model", "out/net.int8.onnx", None),
        ("Mode and target", "int8 for tensorrt, opset 17", None),
        ("Opsets", "ai.onnx 17; IR version 8", None),
        ("Producer", "a test", None),
        ("Calibration data", "data.npz: 8 samples, method max", None),
        ("Data of the check", "data.npz: 8 samples", None),
        ("Reference", "onnxruntime 1.2.3, profile semantic, on a processor", None),
        ("Builder", "tensorrt-rtx 1.7 for 8.9", None),
        ("qdqtool", "0.1.0", None),
    ]


def test_what_no_report_says_is_unknown(tmp_path: Path):
    assert told(tmp_path, validate=VALIDATE) == [
        ("Float model", "unknown", "unknown"),
        ("Quantized model", "out/net.int8.onnx", None),
        ("Reference", "unknown", "unknown"),
        ("Builder", "unknown", "unknown"),
        ("qdqtool", "unknown", "unknown"),
    ]


def test_sensitivity_knows_mode_and_data_where_quantize_is_absent(tmp_path: Path):
    found = told(tmp_path, sensitivity=SENSITIVITY)
    assert named("Mode and target", found) == [("int8 for tensorrt", None)]
    assert named("Calibration data", found) == [("data.npz: 8 samples, method max", None)]
    assert named("Mode and target", told(tmp_path, sensitivity=SENSITIVITY, quantize=QUANTIZE)) == [
        ("int8 for tensorrt, opset 17", None)
    ]


def test_random_data_is_a_warning_and_no_data_is_said(tmp_path: Path):
    made_up = edited(QUANTIZE, lambda it: it["calibration"].update(random=True, samples=1))
    found = told(tmp_path, quantize=made_up, check=RANDOM)
    assert named("Calibration data", found) == [("random inputs: 1 sample, method max", "warning")]
    assert named("Data of the check", found) == [("random inputs, seed 7: 1 sample", "warning")]
    without = told(tmp_path, quantize=QUANTIZE | {"calibration": None})
    assert named("Calibration data", without) == [("none: the scales follow from the weights alone", None)]


def test_the_part_of_the_samples_is_that_of_the_conversion_and_of_no_other_check(tmp_path: Path):
    found = told(tmp_path, convert=CONVERT, check=RANDOM)
    assert named("Data of the check", found) == [
        ("data.npz: 8 samples (hold-out) [convert.json, step check]", None),
        ("random inputs, seed 7: 1 sample [check.json]", "warning"),
    ]
    assert named("Data of the check", told(tmp_path, convert=CONVERT)) == [("data.npz: 8 samples (hold-out)", None)]
    unmeasured = told(tmp_path, convert=CONVERT | {"measured_on": None})
    assert named("Data of the check", unmeasured) == [("data.npz: 8 samples", None)]


def test_nodes_that_ran_in_float32_are_counted_beside_the_reference(tmp_path: Path):
    node = {"node": "n", "op_type": "Add", "graph": "", "evaluated_by": "onnxruntime-float32", "reason": "no kernel"}
    half = edited(CHECK, lambda it: it.update(evaluated=[node | {"type": "bfloat16"}] * 2))
    ((words, _),) = named("Reference", told(tmp_path, check=half))
    assert words.endswith(", on a processor, 2 bfloat16 nodes ran in float32, rounded after each node")


def test_equal_versions_are_named_once_and_others_in_order(tmp_path: Path):
    newer = edited(CHECK, lambda it: it["reference"].update(version="1.10"))
    local = edited(BUILD, lambda it: it.update(backend="tensorrt", targets=[]))
    found = told(tmp_path, check=newer, same=newer, older=CHECK, build=BUILD, local=local)
    assert named("Reference", found) == [
        (
            "onnxruntime 1.10, profile semantic, on a processor; onnxruntime 1.2.3, profile semantic, on a processor",
            None,
        )
    ]
    assert named("Builder", found) == [("tensorrt 1.7 for the GPU of the machine; tensorrt-rtx 1.7 for 8.9", None)]


def test_a_model_may_not_name_its_producer_and_names_are_escaped(tmp_path: Path):
    assert named("Producer", told(tmp_path, inspect=INSPECT | {"producer": ""})) == [("not named in the model", None)]
    assert named("Producer", told(tmp_path, inspect=INSPECT | {"producer": HOSTILE})) == [(ESCAPED, None)]
