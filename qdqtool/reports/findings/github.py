"""Annotations of GitHub Actions: workflow commands that show a finding at its file."""

from qdqtool.errors import escape
from qdqtool.linting.report import ValidateReport
from qdqtool.reports.finding_words import counts, fix_of, repository_path, sentence, worst_first

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: ValidateReport) -> str:
    """Return a command for each finding, errors first since GitHub shows only some, and the counts as plain text."""
    lines = [_command("error", model.path, "unreadable", escape(model.error or "")) for model in report.unreadable]
    for model, target, finding in worst_first(report):
        title = f"{finding.code} {finding.name}"
        message = f"{sentence(finding)} ({target.target}: {finding.effect}){fix_of(finding)}"
        lines.append(_command(_COMMANDS[finding.severity], model.path, title, message))
    return "\n".join([*lines, counts(report)])


def _command(kind: str, path: str, title: str, message: str) -> str:
    where = _property(escape(repository_path(path)))
    return f"::{kind} file={where},line=1,title={_property(title)}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
