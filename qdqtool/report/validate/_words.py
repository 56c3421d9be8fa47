"""Words and paths that the formats share. Strings from models come out escaped."""

import os
from collections.abc import Iterator
from pathlib import Path

from qdqtool.findings import SEVERITIES, Finding
from qdqtool.pipeline.validate_report import ModelReport, TargetReport, ValidateReport
from qdqtool.report.terminal import escape, plural


def repository_path(path: str) -> str:
    """A path relative to the git repository around the working directory, with ``/``: the same on every machine.

    Without a repository it is relative to the working directory; a file outside keeps its absolute path.
    """
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)
    absolute = Path(os.path.normpath(here / path))
    return (absolute.relative_to(root) if absolute.is_relative_to(root) else absolute).as_posix()


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
