"""Findings with a fix lead to the fix, errors without one to the page of their rule."""

from pathlib import Path
from typing import Any

from support.advice import commands_of, steps_of
from support.saved_reports import VALIDATE, edited

from qdqtool.reports.page.advice import fixable_findings


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
    assert "mends 2 warnings QP101 [validate.json]:" in found[0].fact
    assert "mends 1 warning QT403 [validate.json]:" in found[1].fact


def test_an_error_without_a_fix_is_explained_once_and_a_warning_is_not(tmp_path: Path):
    error = {"severity": "error"}
    assert commands_of(fixable_findings, tmp_path, validate=with_findings(error, error)) == ["qdqtool explain QP101"]
    assert commands_of(fixable_findings, tmp_path, validate=VALIDATE) == []


def test_another_target_is_asked_about_again(tmp_path: Path):
    (command,) = commands_of(
        fixable_findings, tmp_path, validate=with_findings({"fixable": True, "safe_fix": True}, target="onnx")
    )
    assert command == "qdqtool validate out/net.int8.onnx --target onnx --fix -o FIXED.onnx"
