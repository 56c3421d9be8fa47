"""The list of pages."""

from support.printed import cells, printed

from qdqtool.jobs.pages import Manual, Page
from qdqtool.reports.text.manual import render


def test_each_page_has_a_row_and_the_last_line_says_how_to_read_one():
    rows = cells(printed(render, Manual((Page("diff", "Comparing two models", ""), Page("plan", "Plan files", "")))))

    assert rows[1:3] == [["diff", "Comparing two models"], ["plan", "Plan files"]]
    assert "`qdqtool explain PAGE`" in rows[-1][0]
