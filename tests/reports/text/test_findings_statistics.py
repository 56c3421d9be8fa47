"""What ``validate --statistics`` prints."""

from support.printed import cells, printed

from qdqtool.linting.report import RuleCount, Statistics, Summary
from qdqtool.reports.text.findings import render_statistics

SUM = "1 error, 2 warnings, 3 infos, 4 suppressed, 5 in the baseline, 6 ignored"


def test_each_rule_has_a_row_before_the_sum():
    rows = (RuleCount("QP101", "a.b", "error", 3, 2), RuleCount("QS001", "c.d", "info", 1, 0))
    table = cells(printed(render_statistics, Statistics(rows, Summary(1, 2, 3, 4, 5, 6))))

    assert table[1:] == [["3", "QP101", "a.b", "error", "2"], ["1", "QS001", "c.d", "info"], [SUM]]


def test_without_findings_there_is_only_the_sum():
    assert printed(render_statistics, Statistics((), Summary(1, 2, 3, 4, 5, 6))) == f"{SUM}\n"
