"""One line for each finding, for grep and editors: ``path: target: code severity [effect] node: message``."""

from qdqtool.errors import escape
from qdqtool.linting.report import ValidateReport
from qdqtool.reports.finding_words import counts, sentence


def render(report: ValidateReport) -> str:
    """Return the findings in the order of the models, then the counts."""
    lines = []
    for model in report.models:
        path = escape(model.path)
        if model.error is not None:
            lines.append(f"{path}: unreadable: {escape(model.error)}")
        for target in model.targets:
            lines += [
                f"{path}: {target.target}: {each.code} {each.severity} [{each.effect}] {sentence(each)}"
                for each in target.findings
            ]
    return "\n".join([*lines, counts(report)])
