"""Verdicts, counts and order of findings in the report of ``validate``."""

from dataclasses import replace

import pytest

from qdqtool.linting.findings import SEVERITIES, Finding, Severity
from qdqtool.linting.report import (
    REPEATED,
    Cause,
    ModelReport,
    RuleCount,
    Summary,
    ValidateReport,
    statistics,
    target_report,
    with_findings,
)

FINDING = Finding(code="QP101", name="a.b", severity="error", effect="refused", message="")
UNREADABLE = ModelReport("b", (), "no such file")


def found(severity: Severity, message: str = "") -> Finding:
    return replace(FINDING, severity=severity, message=message)


def test_errors_come_first_and_equal_severities_keep_their_order():
    findings = [found("info", "1"), found("error", "2"), found("warning", "3"), found("error", "4")]

    assert [each.message for each in target_report("onnx", findings, checked=()).findings] == ["2", "4", "3", "1"]


def test_errors_and_warnings_that_repeat_have_a_cause_with_counts():
    pair = [replace(FINDING, cause="bad pairs", op_type=op) for op in ("QuantizeLinear", "DequantizeLinear")]
    pairs = [replace(each, fixable=True, safe_fix=number == 0) for number, each in enumerate(pair * 6)]
    unnamed = replace(FINDING, code="QP103", severity="warning")
    info = replace(FINDING, code="QP104", severity="info")
    rare = replace(FINDING, code="QP105")
    target = target_report("onnx", [*[unnamed] * 11, *pairs, *[info] * 11, *[rare] * REPEATED], checked=())

    assert target.causes == (
        Cause("bad pairs", "QP101", "error", sites=6, findings=12, fixable=12, safe=1),
        Cause("a.b", "QP103", "warning", sites=11, findings=11, fixable=0, safe=0),
    )
    assert with_findings(target, pairs[:REPEATED]).causes == ()


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


INFO = replace(FINDING, severity="info")
OTHER = replace(FINDING, code="QS001", name="c.d", fixable=True)


def test_the_most_frequent_rule_of_all_models_is_first():
    summary = Summary(errors=4, infos=1)
    first = ModelReport("a", (target_report("onnx", [FINDING, OTHER, INFO], checked=()),))
    second = ModelReport("b", (target_report("onnx", [OTHER, replace(OTHER, fixable=False)], checked=()),))
    found = statistics(ValidateReport((first, second), summary))

    assert found.summary is summary
    assert found.rules == (
        RuleCount("QS001", "c.d", "error", 3, 2),
        RuleCount("QP101", "a.b", "error", 1, 0),
        RuleCount("QP101", "a.b", "info", 1, 0),
    )
