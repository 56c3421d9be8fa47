"""Words and paths that the formats share. Strings from models come out escaped."""

from collections.abc import Iterator

from qdqtool.findings import SEVERITIES, Finding
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport
from qdqtool.report.terminal import escape, plural
from qdqtool.report.uri import from_repository


def repository_path(path: str) -> str:
    """A path as :func:`from_repository` gives it, with ``/``."""
    return from_repository(path).as_posix()


def place(finding: Finding) -> str:
    """The node with its scope, escaped; empty for findings about the model."""
    if finding.node is None:
        return ""
    return escape(f"{finding.graph}/{finding.node}" if finding.graph else finding.node)


def sentence(finding: Finding) -> str:
    """Node, message and expectation in one escaped line."""
    where = f"{place(finding)}: " if finding.node is not None else ""
    wanted = f"; expected {escape(finding.expected)}" if finding.expected is not None else ""
    return f"{where}{escape(finding.message)}{wanted}"


def worst_first(report: ValidateReport) -> Iterator[tuple[ModelReport, TargetReport, Finding]]:
    """Every finding with its model and target; all errors before all warnings before all infos."""
    found = [
        (model, target, finding) for model in report.models for target in model.targets for finding in target.findings
    ]
    yield from sorted(found, key=lambda each: SEVERITIES.index(each[2].severity))


def counts(report: ValidateReport) -> str:
    """The last line of a report: ``2 models, 1 error, 0 warnings, 0 infos, 3 suppressed``."""
    summary = report.summary
    words = [
        plural(len(report.models), "model"),
        plural(summary.errors, "error"),
        plural(summary.warnings, "warning"),
        plural(summary.infos, "info"),
    ]
    if summary.suppressed:
        words.append(f"{summary.suppressed} suppressed")
    if summary.known:
        words.append(f"{summary.known} in the baseline")
    if report.unreadable:
        words.append(f"{len(report.unreadable)} unreadable")
    return ", ".join(words)
