"""Nodes that do not run as planned are left in float where their names are known; refusals keep their hint."""

from pathlib import Path
from typing import Any

from support.advice import commands_of, steps_of
from support.saved_reports import BUILD, QUANTIZE, REFUSED, SENSITIVITY, edited

from qdqtool.reports.page.advice import lost_precision


def fallen(*names: str, **changes: Any) -> Any:
    base = {**BUILD["nodes"][0], "actual": "float32", "reason": "no kernel", **changes}
    return {**BUILD, "nodes": [BUILD["nodes"][0], *({**base, "name": name} for name in names)]}


def test_nodes_of_the_float_model_are_left_in_float_with_the_reason(tmp_path: Path):
    (step,) = steps_of(lost_precision, tmp_path, build=fallen("relu", "fc"), quantize=QUANTIZE)

    assert step.fact.startswith("2 nodes planned in int8 run in float32 (relu, fc): no kernel [build.json]. ")
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
    assert [step.fact.partition(" [")[0] for step in found] == [
        "2 nodes planned in int8 run in float32 (a, b): no kernel",
        "1 node planned in int8 runs in float16 (c): no reason is known",
    ]


def test_what_runs_as_planned_or_is_not_known_asks_for_nothing(tmp_path: Path):
    assert steps_of(lost_precision, tmp_path, build=BUILD) == []
    assert steps_of(lost_precision, tmp_path, build=fallen("fc", actual="unknown")) == []


def test_a_refusal_has_its_hint(tmp_path: Path):
    (step,) = steps_of(lost_precision, tmp_path, build={**REFUSED, "hint": "give shapes"})
    assert step.fact.startswith(
        "The build was refused in stage parse [build.json]: the parser refused it. give shapes."
    )
    assert step.command == "qdqtool validate net.int8.onnx --verbose"
