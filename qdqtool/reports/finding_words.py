"""Words and paths that the formats share. Strings from models come out escaped."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from urllib.parse import quote

from qdqtool.errors import escape, plural
from qdqtool.linting.findings import SEVERITIES, Finding
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport
from qdqtool.reports.blocks import scoped


def repository_path(path: str) -> str:
    """A path as :func:`from_repository` gives it, with ``/``."""
    return from_repository(path).as_posix()


def place(finding: Finding) -> str:
    """The node with its scope, escaped; empty for findings about the model."""
    if finding.node is None:
        return ""
    return escape(scoped(finding.node, finding.graph))


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
    numbers = (summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info")
    words = [plural(count, noun) for count, noun in ((len(report.models), "model"), *numbers)]
    further = (
        (summary.suppressed, "suppressed"),
        (summary.known, "in the baseline"),
        (summary.ignored, f"ignored ({', '.join(map(escape, report.ignored))})"),
        (sum(model.qdq_nodes == 0 for model in report.models), "without Q/DQ"),
        (len(report.unreadable), "unreadable"),
    )
    words += [f"{count} {what}" for count, what in further if count]
    return ", ".join(words)


def repository_root() -> Path:
    """The root of the git repository around the working directory; the working directory where there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def from_repository(path: str) -> PurePath:
    """A path relative to :func:`repository_root`: the same on every machine. A file outside keeps its absolute path."""
    absolute, root = Path(os.path.normpath(Path.cwd() / path)), repository_root()
    return absolute.relative_to(root) if absolute.is_relative_to(root) else absolute


def file_uri(path: PurePath) -> str:
    """A URI reference: relative for a relative path, ``file:`` for an absolute one, with a drive or a server too.

    Bytes that are no UTF-8 are percent-encoded as they are.
    """
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
