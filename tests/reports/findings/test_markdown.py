"""The summary in Markdown."""

import html

from qdqtool.linting.report import ValidateReport
from qdqtool.reports.findings.markdown import render


def test_markdown_has_verdicts_and_findings(report: ValidateReport):
    lines = render(report).splitlines()

    assert any(line.startswith("| bad.onnx | tensorrt | fail | 1 | 0 | ") for line in lines)
    assert any(line.startswith("| good.onnx | tensorrt | pass | 0 | 0 | ") for line in lines)
    assert any(line.startswith("| QP101 | error | refused | bad.onnx | tensorrt |") for line in lines)


def test_hostile_names_stay_in_their_markdown_cells(hostile: ValidateReport):
    rows = [line for line in render(hostile).splitlines() if line.startswith("| QP101")]

    assert len(rows) == len(hostile.findings)
    for row in rows:
        cells = row.strip("| ").split(" | ")
        assert len(cells) == 7
        assert not set("<>`[]*@") & set("".join(cells))
        assert "[bold]" in html.unescape(cells[5])
