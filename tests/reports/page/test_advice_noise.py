"""An output below 30 dB leads to the layers that make the noise, to a search, and to what measures layers."""

from pathlib import Path
from typing import Any

from support.advice import commands_of, steps_of
from support.saved_reports import CHECK, QUANTIZE, SEARCH, SENSITIVITY, edited

from qdqtool.reports.page.advice import noisy_layers

GOAL = "qdqtool quantize net.onnx --calib-data data.npz --min-sqnr 30 -o NEW.onnx"
MEASURE = "qdqtool sensitivity net.onnx --calib-data data.npz"


def quantized(worst: float, **changes: Any) -> Any:
    return {**edited(QUANTIZE, lambda it: it["accuracy"]["outputs"][0].update(sqnr_db=worst)), **changes}


def checked(worst: float, **changes: Any) -> Any:
    return {**edited(CHECK, lambda it: it["outputs"][0].update(sqnr_db=worst)), **changes}


def test_without_more_reports_a_search_and_a_measurement_are_advised(tmp_path: Path):
    found = steps_of(noisy_layers, tmp_path, quantize=quantized(29.9))

    assert [step.command for step in found] == [GOAL, MEASURE]
    assert found[0].fact.startswith("Output y keeps 29.90 dB [quantize.json]. ")
    assert steps_of(noisy_layers, tmp_path, quantize=quantized(30.0)) == []


def test_the_layers_that_a_report_blames_are_named(tmp_path: Path):
    blame = {
        "output": "y",
        "problem": "",
        "layers": [{"node": "conv", "noise_share": 0.75, "exclude": ["conv", "a b"]}],
    }
    first, *others = steps_of(noisy_layers, tmp_path, quantize=quantized(20.0, blame=blame))

    assert "made by conv (75.00%)" in first.fact
    assert first.command == (
        "qdqtool quantize net.onnx --calib-data data.npz --nodes-to-exclude conv --nodes-to-exclude 'a b' -o NEW.onnx"
    )
    assert [step.command for step in others] == [GOAL, MEASURE]


def test_with_a_sensitivity_report_its_loudest_layers_are_named_and_nothing_is_measured_again(tmp_path: Path):
    node = SENSITIVITY["nodes"][0]
    nodes = [
        {**node, "node": name, "noise_share": share, "exclude": [name]}
        for name, share in (("a", 0.3), ("b", 0.25), ("c", 0.2))
    ]
    found = commands_of(noisy_layers, tmp_path, quantize=quantized(20.0), sensitivity={**SENSITIVITY, "nodes": nodes})

    assert found == [
        "qdqtool quantize net.onnx --calib-data data.npz --nodes-to-exclude a --nodes-to-exclude b -o NEW.onnx",
        GOAL,
    ]


def test_a_check_on_real_data_is_believed_before_quantize(tmp_path: Path):
    assert commands_of(noisy_layers, tmp_path, quantize=quantized(20.0), check=checked(41.0)) == []
    assert commands_of(noisy_layers, tmp_path, quantize=quantized(40.0), check=checked(12.0)) == [GOAL, MEASURE]
    random = edited(checked(12.0), lambda it: it["data"].update(seed=0))
    assert commands_of(noisy_layers, tmp_path, quantize=quantized(40.0), check=random) == []


def test_layers_that_a_check_blames_are_told_with_its_gate(tmp_path: Path):
    blame = {"output": "y", "problem": "", "layers": [{"node": "conv", "noise_share": 0.75, "exclude": ["conv"]}]}
    report = {"quantize": quantized(20.0, blame=blame), "check": checked(12.0, blame=blame)}
    assert commands_of(noisy_layers, tmp_path, **report) == [GOAL, MEASURE]


def test_an_accuracy_that_was_asked_for_is_enough_and_what_lacks_of_it_is_asked_for_anew(tmp_path: Path):
    low = quantized(26.0, search={**SEARCH, "min_sqnr_db": 25.0})
    assert commands_of(noisy_layers, tmp_path, quantize=low) == []
    (step,) = steps_of(noisy_layers, tmp_path, quantize=low, check=checked(23.5))
    assert "keeps 23.50 dB [check.json], and 25 dB was asked for on other samples" in step.fact
    assert step.command == "qdqtool quantize net.onnx --calib-data data.npz --min-sqnr 26.5 -o NEW.onnx"


def test_mode_and_target_are_those_of_the_model(tmp_path: Path):
    fp8 = quantized(20.0, mode="fp8", target="tensorrt-rtx")
    given = "--quantize-mode fp8 --target tensorrt-rtx"
    assert commands_of(noisy_layers, tmp_path, quantize=fp8) == [
        f"qdqtool quantize net.onnx --calib-data data.npz {given} --min-sqnr 30 -o NEW.onnx",
        f"qdqtool sensitivity net.onnx --calib-data data.npz {given}",
    ]


def test_data_in_memory_and_ranges_files_are_no_data_to_name(tmp_path: Path):
    for change in ({"source": "dict of arrays"}, {"source": "r.json", "from_file": True}, {"given": {"pairs": 1}}):
        report = edited(quantized(20.0), lambda it, change=change: it["calibration"].update(change))
        assert all("--calib-data DATA" in command for command in commands_of(noisy_layers, tmp_path, quantize=report))


def test_a_fault_that_a_gate_found_is_no_question_of_accuracy(tmp_path: Path):
    faulty = edited(checked(12.0), lambda it: it["gates"][0].update(passed=False))
    assert commands_of(noisy_layers, tmp_path, quantize=quantized(40.0), check=faulty) == []
