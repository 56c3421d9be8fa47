"""Annotations of GitHub Actions."""

import re

from qdqtool.linting.report import ValidateReport
from qdqtool.reports.findings.github import render


def test_github_annotations(report: ValidateReport):
    lines = render(report).splitlines()

    assert lines[0] == "::error file=models/none.onnx,line=1,title=unreadable::none.onnx: no such file"
    assert lines[1].startswith(
        "::error file=models/bad.onnx,line=1,title=QP101 parameters.scale-value::DequantizeLinear -> wd: scale 'ws'"
    )
    assert any(line.startswith("::warning file=models/warn ä.onnx") for line in lines)
    assert lines[-1].startswith("4 models, ")


def test_hostile_names_start_no_github_command(hostile: ValidateReport):
    *commands, _ = render(hostile).splitlines()

    assert len(commands) == len(hostile.findings)
    for line in commands:
        head, _, message = line[2:].partition("::")
        values = dict(part.split("=", 1) for part in head.split(" ", 1)[1].split(","))
        assert set(values) == {"file", "line", "title"}
        assert "%25" in values["file"]
        assert ":" not in values["file"]
        assert "%" not in re.sub("%(25|0D|0A|3A|2C)", "", message)
