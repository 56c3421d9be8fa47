"""One line for each finding."""

from qdqtool.linting.report import ValidateReport
from qdqtool.reports.findings.concise import render


def test_concise_has_one_line_for_each_finding(report: ValidateReport):
    lines = render(report).splitlines()

    assert len(lines) == len(report.findings) + 2
    assert any(line.startswith("bad.onnx: tensorrt: QP101 error [refused] DequantizeLinear -> wd: ") for line in lines)
