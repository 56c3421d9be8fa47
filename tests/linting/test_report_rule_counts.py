"""Findings are counted by rule and severity."""

from dataclasses import replace

from qdqtool.linting.findings import Finding
from qdqtool.linting.report import ModelReport, RuleCount, Summary, ValidateReport, statistics, target_report

FINDING = Finding(code="QP101", name="a.b", severity="error", effect="refused", message="")
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
