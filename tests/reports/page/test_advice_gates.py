"""A missed gate leads to the command that shows where, or to a model that leaves out what costs most."""

from pathlib import Path
from typing import Any

import pytest
from support.advice import commands_of, steps_of
from support.saved_reports import CHECK, QUANTIZE, edited

from qdqtool.reports.page.advice import missed_gates

BLAME = {
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
    assert step.fact.startswith(f"Gate {name} failed: {name} is far off [check.json]. ")
    assert step.command == "qdqtool check net.int8.onnx --baseline net.onnx --data data.npz --blame"

    (step,) = steps_of(missed_gates, tmp_path, check=missed(name, blame=BLAME), quantize=QUANTIZE)
    assert "Most of the noise at y comes from conv a (50.00%), fc (25.00%)." in step.fact
    assert step.command == (
        "qdqtool quantize net.onnx --calib-data data.npz --nodes-to-exclude 'conv a' --nodes-to-exclude fc "
        "--nodes-to-exclude fc_bias -o NEW.onnx"
    )


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
    both = edited(missed("pairs", blame=BLAME), lambda it: it["gates"].append({**it["gates"][-1], "name": "accuracy"}))
    assert commands_of(missed_gates, tmp_path, check=both) == [
        "qdqtool check net.int8.onnx --baseline net.onnx --data data.npz --verbose"
    ]
