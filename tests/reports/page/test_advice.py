"""What the page advises: each kind of step, the facts it names and its command."""

from pathlib import Path
from typing import Any

import pytest
from support.advice import commands_of, steps_of
from support.saved_reports import (
    ALL,
    BUILD,
    CHECK,
    CONVERT,
    QUANTIZE,
    REFUSED,
    SAMPLES,
    SEARCH,
    SENSITIVITY,
    VALIDATE,
    edited,
)

from qdqtool.reports.page.advice import (
    fixable_findings,
    lost_precision,
    missed_gates,
    missing_limits,
    noisy_layers,
    odd_samples,
    open_questions,
    random_samples,
)


def fallen(*names: str, **changes: Any) -> Any:
    base = {**BUILD["nodes"][0], "actual": "float32", "reason": "no kernel", **changes}
    return {**BUILD, "nodes": [BUILD["nodes"][0], *({**base, "name": name} for name in names)]}


def test_nodes_of_the_float_model_are_left_in_float_with_the_reason(tmp_path: Path):
    (step,) = steps_of(lost_precision, tmp_path, build=fallen("relu", "fc"), quantize=QUANTIZE)
    assert step.fact.startswith("2 nodes planned in int8 run in float32 (relu, fc): no kernel. ")
    assert step.command == (
        "qdqtool quantize net.onnx --calib-data data.npz --nodes-to-exclude relu --nodes-to-exclude fc -o NEW.onnx"
    )


def test_names_with_characters_of_patterns_match_themselves(tmp_path: Path):
    named = edited(QUANTIZE, lambda it: it["nodes"][2].update(name="fc[0]"))
    (command,) = commands_of(lost_precision, tmp_path, build=fallen("fc[0]"), quantize=named)
    assert "--nodes-to-exclude 'fc[[]0]'" in command


def test_nodes_that_quantize_made_and_nodes_without_a_name_are_only_listed(tmp_path: Path):
    listed = "qdqtool build net.int8.onnx --backend tensorrt-rtx --compute-capabilities 8.9 --verbose -o NEW.engine"
    assert commands_of(lost_precision, tmp_path, build=fallen("fc")) == [listed]
    split = {**QUANTIZE, "separated": ["qkv"]}
    in_folder = listed.replace("net.int8.onnx", "out/net.int8.onnx --data data.npz")
    assert commands_of(lost_precision, tmp_path, build=fallen("fc"), quantize=split) == [in_folder]
    assert commands_of(lost_precision, tmp_path, build=fallen("Conv -> y"), quantize=QUANTIZE) == [in_folder]
    measured = edited(SENSITIVITY, lambda it: it["nodes"][0].update(node="fc", exclude=["y"]))
    (command,) = commands_of(lost_precision, tmp_path, build=fallen("fc"), quantize=split, sensitivity=measured)
    assert "--nodes-to-exclude y" in command


def test_reasons_are_told_apart_the_most_frequent_first(tmp_path: Path):
    build = fallen("a", "b")
    build["nodes"].append({**BUILD["nodes"][0], "name": "c", "actual": "float16", "reason": None})
    found = steps_of(lost_precision, tmp_path, build=build)
    assert [step.fact.partition(". ")[0] for step in found] == [
        "2 nodes planned in int8 run in float32 (a, b): no kernel",
        "1 node planned in int8 runs in float16 (c): no reason is known",
    ]


def test_what_runs_as_planned_or_is_not_known_asks_for_nothing(tmp_path: Path):
    assert steps_of(lost_precision, tmp_path, build=BUILD) == []
    assert steps_of(lost_precision, tmp_path, build=fallen("fc", actual="unknown")) == []


def test_a_refusal_has_its_hint(tmp_path: Path):
    (step,) = steps_of(lost_precision, tmp_path, build={**REFUSED, "hint": "give shapes"})
    assert step.fact.startswith("The build was refused in stage parse: the parser refused it. give shapes.")
    assert step.command == "qdqtool validate net.int8.onnx --verbose"


def with_findings(*changes: Any, target: str = "tensorrt") -> Any:
    base = VALIDATE["models"][0]["targets"][0]["findings"][0]
    found = {"target": target, "findings": [{**base, **change} for change in changes]}
    return edited(VALIDATE, lambda it: it["models"][0]["targets"][0].update(found))


def test_safe_fixes_are_told_from_those_that_change_numbers(tmp_path: Path):
    safe, unsafe = {"fixable": True, "safe_fix": True}, {"fixable": True, "code": "QT403"}
    found = steps_of(fixable_findings, tmp_path, validate=with_findings(safe, safe, unsafe))
    assert [step.command for step in found] == [
        "qdqtool validate out/net.int8.onnx --fix -o FIXED.onnx",
        "qdqtool validate out/net.int8.onnx --fix --unsafe-fixes -o FIXED.onnx",
    ]
    assert "To fix 2 warnings QP101 without" in found[0].fact
    assert "To fix 1 warning QT403, and print" in found[1].fact


def test_an_error_without_a_fix_is_explained_once_and_a_warning_is_not(tmp_path: Path):
    error = {"severity": "error"}
    assert commands_of(fixable_findings, tmp_path, validate=with_findings(error, error)) == ["qdqtool explain QP101"]
    assert commands_of(fixable_findings, tmp_path, validate=VALIDATE) == []


def test_another_target_is_asked_about_again(tmp_path: Path):
    (command,) = commands_of(
        fixable_findings, tmp_path, validate=with_findings({"fixable": True, "safe_fix": True}, target="onnx")
    )
    assert command == "qdqtool validate out/net.int8.onnx --target onnx --fix -o FIXED.onnx"


BLAMED = {
    "output": "y",
    "problem": "",
    "layers": [
        {"node": "conv a", "noise_share": 0.5, "exclude": ["conv a"]},
        {"node": "fc", "noise_share": 0.25, "exclude": ["fc", "fc_bias"]},
    ],
}


def missed(name: str, **report: Any) -> Any:
    """A check that missed one gate."""
    gate = {"name": name, "requires": "r", "passed": False, "detail": "bad", "failures": [f"{name} is far off"]}
    return {**edited(CHECK, lambda it: it["gates"].append(gate)), "passed": False, **report}


@pytest.mark.parametrize("name", ["accuracy", "min-sqnr", "min-cosine", "max-metric-loss", "min-agreement"])
def test_of_an_accuracy_the_layers_are_named_or_asked_for(name: str, tmp_path: Path):
    (step,) = steps_of(missed_gates, tmp_path, check=missed(name))
    assert step.fact.startswith(f"Gate {name} failed: {name} is far off. ")
    assert step.command == "qdqtool check net.int8.onnx --baseline net.onnx --data data.npz --blame"

    (step,) = steps_of(missed_gates, tmp_path, check=missed(name, blame=BLAMED), quantize=QUANTIZE)
    assert "Most of the noise at y comes from conv a (50.00%), fc (25.00%)." in step.fact
    assert step.command == (
        "qdqtool quantize net.onnx --calib-data data.npz --nodes-to-exclude 'conv a' --nodes-to-exclude fc "
        "--nodes-to-exclude fc_bias -o NEW.onnx"
    )


def test_where_ranges_clip_they_are_found_anew_before_layers_stay_in_float(tmp_path: Path):
    cause = {"cause": "clipping activations", "sites": 3, "undone_db": 20.0, "clipped_share": 0.15}
    clipped = {**BLAMED, "whole_db": 5.0, "causes": [cause]}
    (step,) = steps_of(missed_gates, tmp_path, check=missed("min-sqnr", blame=clipped), quantize=QUANTIZE)
    assert "The ranges clip up to 15.00% of the values of a tensor." in step.fact
    assert step.command == ("qdqtool quantize net.onnx --calib-data data.npz --calibration-method max -o NEW.onnx")
    cause["undone_db"] = 7.0
    (step,) = steps_of(missed_gates, tmp_path, check=missed("min-sqnr", blame=clipped), quantize=QUANTIZE)
    assert "--nodes-to-exclude" in step.command


def test_scales_that_do_not_fit_are_made_again_and_others_are_listed(tmp_path: Path):
    assert commands_of(missed_gates, tmp_path, check=missed("activations"), quantize=QUANTIZE) == [
        "qdqtool quantize net.onnx --calib-data data.npz -o NEW.onnx"
    ]
    assert commands_of(missed_gates, tmp_path, check=missed("own-core"), quantize=QUANTIZE) == [
        "qdqtool check out/net.int8.onnx --baseline net.onnx --data data.npz --verbose"
    ]


def test_a_check_that_passed_asks_for_nothing(tmp_path: Path):
    assert steps_of(missed_gates, tmp_path, check=CHECK) == []


def test_where_another_gate_says_why_the_accuracy_is_lost_no_layer_is_blamed(tmp_path: Path):
    both = edited(missed("pairs", blame=BLAMED), lambda it: it["gates"].append({**it["gates"][-1], "name": "accuracy"}))
    assert commands_of(missed_gates, tmp_path, check=both) == [
        "qdqtool check net.int8.onnx --baseline net.onnx --data data.npz --verbose"
    ]


@pytest.mark.parametrize(("worst", "limit"), [(41.25, 41), (30.0, 30), (-0.5, -1)])
def test_the_limit_is_one_that_the_model_keeps(worst: float, limit: int, tmp_path: Path):
    check = edited(CHECK, lambda it: it["outputs"][0].update(sqnr_db=worst))
    (command,) = commands_of(missing_limits, tmp_path, check=check)
    assert command == f"qdqtool check net.int8.onnx --baseline net.onnx --data data.npz --min-sqnr {limit}"


def test_a_limit_that_was_given_a_failed_check_and_exact_outputs_need_none(tmp_path: Path):
    limited = edited(CHECK, lambda it: it["gates"].append({**it["gates"][0], "name": "min-cosine"}))
    exact = edited(CHECK, lambda it: it["outputs"][0].update(sqnr_db=None, exact=True))
    for check in (limited, exact, {**CHECK, "passed": False}):
        assert commands_of(missing_limits, tmp_path, check=check) == []


GOAL = "qdqtool quantize net.onnx --calib-data data.npz --min-sqnr 30 -o NEW.onnx"
MEASURE = "qdqtool sensitivity net.onnx --calib-data data.npz"


def quantized(worst: float, **changes: Any) -> Any:
    return {**edited(QUANTIZE, lambda it: it["accuracy"]["outputs"][0].update(sqnr_db=worst)), **changes}


def checked(worst: float, **changes: Any) -> Any:
    return {**edited(CHECK, lambda it: it["outputs"][0].update(sqnr_db=worst)), **changes}


def test_without_more_reports_a_search_and_a_measurement_are_advised(tmp_path: Path):
    found = steps_of(noisy_layers, tmp_path, quantize=quantized(29.9))
    assert [step.command for step in found] == [GOAL, MEASURE]
    assert found[0].fact.startswith("Output y keeps 29.90 dB. ")
    assert steps_of(noisy_layers, tmp_path, quantize=quantized(30.0)) == []


def test_the_layers_that_a_report_blames_are_named(tmp_path: Path):
    blame = {
        "output": "y",
        "problem": "",
        "layers": [{"node": "conv", "noise_share": 0.75, "exclude": ["conv", "a b"]}],
    }
    first, *others = steps_of(noisy_layers, tmp_path, quantize=quantized(20.0, blame=blame))

    assert "comes from conv (75.00%)" in first.fact
    assert first.command == (
        "qdqtool quantize net.onnx --calib-data data.npz --nodes-to-exclude conv --nodes-to-exclude 'a b' -o NEW.onnx"
    )
    assert [step.command for step in others] == [GOAL, MEASURE]


@pytest.mark.parametrize(
    ("mode", "found"), [("nvfp4", ["qdqtool quantize net.onnx --calib-data data.npz -o NEW.onnx"]), ("int8", [])]
)
def test_all_that_is_quantized_is_never_left_in_float(mode: str, found: list[str], tmp_path: Path):
    layer = {"node": "fc", "noise_share": 1.0, "macs_share": 1.0, "exclude": ["fc"]}
    report = quantized(20.0, mode=mode, blame={"output": "y", "problem": "", "layers": [layer]})

    assert commands_of(noisy_layers, tmp_path, quantize=report) == found


def test_with_a_sensitivity_report_its_loudest_layers_are_named_and_nothing_is_measured_again(tmp_path: Path):
    node = SENSITIVITY["nodes"][0]
    nodes = [
        {**node, "node": name, "noise_share": share, "cost_share": 0.2, "exclude": [name]}
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
    assert "keeps 23.50 dB; 25 dB was the target on other samples" in step.fact
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


RANDOM = {"source": "random", "samples": 4, "random": True, "chosen": ""}


def test_random_ranges_and_random_checks_need_real_data(tmp_path: Path):
    check = edited(CHECK, lambda it: it["data"].update(source="random", seed=0))
    assert commands_of(random_samples, tmp_path, quantize={**QUANTIZE, "calibration": RANDOM}, check=check) == [
        "qdqtool quantize net.onnx --calib-data DATA -o NEW.onnx",
        "qdqtool check out/net.int8.onnx --baseline net.onnx --data DATA",
    ]


def test_data_of_another_report_is_named(tmp_path: Path):
    assert commands_of(random_samples, tmp_path, quantize={**QUANTIZE, "calibration": RANDOM}, check=CHECK) == [
        "qdqtool quantize net.onnx --calib-data data.npz -o NEW.onnx"
    ]


def test_a_check_without_a_float_model_gets_one(tmp_path: Path):
    alone = {**CHECK, "baseline": None}
    assert commands_of(random_samples, tmp_path, check=alone) == [
        "qdqtool check net.int8.onnx --baseline FLOAT.onnx --data data.npz"
    ]


def test_real_data_is_enough(tmp_path: Path):
    assert commands_of(random_samples, tmp_path, quantize=QUANTIZE, check=CHECK) == []


def test_each_open_question_has_its_command(tmp_path: Path):
    assert commands_of(open_questions, tmp_path, quantize=QUANTIZE) == [
        "qdqtool validate out/net.int8.onnx",
        "qdqtool check out/net.int8.onnx --baseline net.onnx --data data.npz",
        "qdqtool build out/net.int8.onnx --data data.npz -o NEW.engine",
    ]


def test_answered_questions_and_steps_that_nobody_asked_for_have_none(tmp_path: Path):
    assert commands_of(open_questions, tmp_path, **ALL) == []
    assert commands_of(open_questions, tmp_path, report=CONVERT) == []


def test_errors_are_mended_before_anything_is_run(tmp_path: Path):
    invalid = edited(VALIDATE, lambda it: it["models"][0]["targets"][0].update(verdict="fail"))
    assert commands_of(open_questions, tmp_path, validate=invalid) == []


def test_shapes_come_from_arrays_and_not_from_files_that_build_does_not_read(tmp_path: Path):
    images = edited(QUANTIZE, lambda it: it["calibration"].update(source="images"))
    assert commands_of(open_questions, tmp_path, quantize=images)[-1] == "qdqtool build out/net.int8.onnx -o NEW.engine"


def with_worst(**sample: Any) -> Any:
    samples = edited(SAMPLES, lambda it: it["worst_samples"][0].update(sample))
    return edited(CHECK, lambda it: it["outputs"][0].update(samples))


def test_a_sample_far_below_the_median_is_named_with_its_file(tmp_path: Path):
    (step,) = steps_of(odd_samples, tmp_path, check=with_worst())
    assert step.fact.startswith(
        "At output y, sample 17 (cats/17.png) keeps 12.50 dB, and half of the samples keep more than 40.00 dB. "
    )
    assert step.command.endswith("--data data.npz --save-outputs outputs.npz")


def test_what_has_no_figure_stands_out_too(tmp_path: Path):
    (step,) = steps_of(odd_samples, tmp_path, check=with_worst(sqnr_db=None, zero_reference=True, files=[]))
    assert "sample 17 has no SQNR" in step.fact
    (step,) = steps_of(odd_samples, tmp_path, check=with_worst(sqnr_db=50.0, nonfinite=1))
    assert "has no SQNR" in step.fact


def test_a_sample_near_the_median_and_random_inputs_ask_for_nothing(tmp_path: Path):
    assert steps_of(odd_samples, tmp_path, check=with_worst(sqnr_db=34.5)) == []
    assert steps_of(odd_samples, tmp_path, check=edited(with_worst(), lambda it: it["data"].update(seed=0))) == []
    assert steps_of(odd_samples, tmp_path, check=CHECK) == []
