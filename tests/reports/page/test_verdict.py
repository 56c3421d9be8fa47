"""The verdict is green only where rules, numbers and engine all are; every failure of any report makes it red."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.saved_reports import ALL, BUILD, CONVERT, LIMITED, QUANTIZE, REFUSED, VALIDATE, edited, save

from qdqtool.reports.page.verdict import Verdict, judge
from qdqtool.reports.saved.reading import read_reports
from qdqtool.reports.saved.story import join

GREEN = {name: ALL[name] for name in ("check", "build", "validate")}


def verdict(folder: Path, **documents: Any) -> Verdict:
    return judge(join(read_reports(save(folder, **documents))))


def test_all_three_answers_make_it_green(tmp_path: Path):
    found = verdict(tmp_path, **GREEN)
    assert (found.overall, found.sentence) == ("passed", "Every gate held.")
    assert [(each.question, each.state) for each in found.judgements] == [
        ("rules", "passed"),
        ("numbers", "passed"),
        ("engine", "passed"),
    ]


def test_numbers_that_nothing_compares_are_a_warning_and_other_questions_may_stay_open(tmp_path: Path):
    without = {name: {key: each for key, each in GREEN.items() if key != name} for name in GREEN}
    found = {name: verdict(tmp_path, quantize=QUANTIZE, **given) for name, given in without.items()}
    assert {name: each.overall for name, each in found.items()} == {
        "check": "warning",
        "build": "passed",
        "validate": "passed",
    }
    assert found["check"].sentence == "No report answers this; qdqtool check --baseline does."
    assert found["build"].sentence == "Every gate held. Not asked for: engine."


FAULTS: dict[str, tuple[str, Callable[[Any], object]]] = {
    "a check that failed": ("check", lambda it: it.update(passed=False)),
    "a gate that failed in a check that passed": ("check", lambda it: it["gates"][0].update(passed=False)),
    "a failure in a check that passed": ("check", lambda it: it.update(failures=["no"])),
    "a build that failed": ("build", lambda it: it.update(passed=False)),
    "a gate that failed in a build that passed": ("build", lambda it: it["gates"][0].update(passed=False)),
    "a target that failed": ("validate", lambda it: it["models"][0]["targets"][0].update(verdict="fail")),
    "an error of a target that passed": (
        "validate",
        lambda it: it["models"][0]["targets"][0]["findings"][0].update(severity="error"),
    ),
    "a model that could not be read": ("validate", lambda it: it["models"][0].update(error="damaged", targets=[])),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_failure_makes_it_red(fault: str, tmp_path: Path):
    name, edit = FAULTS[fault]
    assert verdict(tmp_path, **GREEN | {name: edited(GREEN[name], edit)}).overall == "failed"
    beside = verdict(tmp_path, **GREEN, second=edited(GREEN[name], edit))
    assert beside.overall == "failed", "a report that passed does not hide one that failed"


def test_a_settings_file_that_hides_errors_is_named(tmp_path: Path):
    hiding = edited(VALIDATE, lambda it: it["models"][0]["targets"][0].update(lowered=1))
    found = verdict(tmp_path, **GREEN | {"validate": hiding | {"settings": "my/qdqtool.toml"}})
    assert (found.overall, found.sentence) == (
        "warning",
        "Tensorrt: 1 error ignored or lowered by options or my/qdqtool.toml.",
    )


UNPROVEN: dict[str, tuple[str, Callable[[Any], object]]] = {
    "random inputs": ("check", lambda it: it["data"].update(seed=0, source="random")),
    "no float model": ("check", lambda it: it.update(baseline=None)),
    "no evidence": ("build", lambda it: it.update(evidence="none")),
    "no target": ("validate", lambda it: it["models"][0].update(targets=[])),
}


@pytest.mark.parametrize("case", UNPROVEN)
def test_what_proves_nothing_is_a_warning(case: str, tmp_path: Path):
    name, edit = UNPROVEN[case]
    assert verdict(tmp_path, **GREEN | {name: edited(GREEN[name], edit)}).overall == "warning"


def test_a_refused_build_and_errors_of_quantize_make_it_red(tmp_path: Path):
    finding = {**VALIDATE["models"][0]["targets"][0]["findings"][0], "severity": "error"}
    nan = edited(QUANTIZE, lambda it: it["accuracy"]["outputs"][0].update(finite=False))

    refused = verdict(tmp_path, **GREEN | {"build": REFUSED})
    assert (refused.overall, refused.sentence) == (
        "failed",
        "Engine failed: refused in stage 'parse': the parser refused it.",
    )
    assert verdict(tmp_path, **GREEN, quantize=QUANTIZE | {"findings": [finding]}).overall == "failed"
    assert verdict(tmp_path, **GREEN, quantize=nan).overall == "failed"


def test_a_conversion_is_judged_by_its_steps_too(tmp_path: Path):
    def step(index: int, **values: Any) -> Any:
        return edited(CONVERT, lambda it: it["steps"][index].update(values))

    without_build = verdict(tmp_path, report=CONVERT)
    assert (without_build.overall, without_build.sentence) == ("passed", "Every gate held. Not asked for: engine.")
    for fault in (
        step(2, state="failed", message="missed"),
        step(3, state="failed", missed=["require-precision"]),
        step(0, state="failed", report=None),
        CONVERT | {"passed": False, "failed": "check"},
        CONVERT | {"passed": False},
    ):
        assert verdict(tmp_path, report=fault).overall == "failed"
    for gap in (step(2, report=None), step(3, state="passed")):
        assert verdict(tmp_path, report=gap).overall == "warning"


def test_too_few_nodes_in_the_planned_precision_are_told(tmp_path: Path):
    slow = BUILD | {"planned": {"int8": 3, "fp8": 1}, "achieved": {"int8": 2}}
    (engine,) = (each for each in verdict(tmp_path, **GREEN | {"build": slow}).judgements if each.question == "engine")
    assert engine.detail == "tensorrt-rtx 1.7 built it; 2 of 4 planned nodes have the planned precision"
    assert verdict(tmp_path, **GREEN | {"check": LIMITED}).overall == "passed"
