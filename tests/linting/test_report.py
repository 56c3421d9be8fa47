"""Verdicts and order of findings in the report of ``validate``."""

from dataclasses import replace

import pytest

from qdqtool.linting.findings import SEVERITIES, Finding, Severity
from qdqtool.linting.report import ModelReport, Summary, ValidateReport, target_report

FINDING = Finding(code="QP101", name="a.b", severity="error", effect="refused", message="")
UNREADABLE = ModelReport("b", (), "no such file")


def found(severity: Severity, message: str = "") -> Finding:
    return replace(FINDING, severity=severity, message=message)


def test_errors_come_first_and_equal_severities_keep_their_order():
    findings = [found("info", "1"), found("error", "2"), found("warning", "3"), found("error", "4")]

    assert [each.message for each in target_report("onnx", findings, checked=()).findings] == ["2", "4", "3", "1"]


@pytest.mark.parametrize(
    ("severity", "verdict", "reached"),
    [
        ("error", "fail", {"error", "warning", "info"}),
        ("warning", "pass", {"warning", "info"}),
        ("info", "pass", {"info"}),
    ],
)
def test_only_errors_fail_and_a_severity_reaches_all_below(severity: Severity, verdict: str, reached: set[str]):
    target = target_report("onnx", [found(severity)], checked=())
    report = ValidateReport((ModelReport("a", (target,)), UNREADABLE), Summary())

    assert target.verdict == verdict
    assert {each for each in SEVERITIES if report.reaches(each)} == reached
    assert report.unreadable == (UNREADABLE,)
