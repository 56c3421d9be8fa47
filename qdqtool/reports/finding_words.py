"""Words and paths that several formats of findings share. Strings from models are escaped."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import quote

from qdqtool.errors import escape, plural
from qdqtool.linting import rules
from qdqtool.linting.findings import SEVERITIES, Finding
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport
from qdqtool.reports.blocks import scoped

CHECK = "check"
"""The target of findings of ``check``, and the code of those that are no gate."""


@dataclass(frozen=True, slots=True)
class CheckedModel(ModelReport):
    """The findings of the check of one model.

    Attributes:
        worst: The worst output, in words; empty where nothing was compared.
    """

    worst: str = ""


def command_of(report: ValidateReport) -> str:
    """Return the command that made findings."""
    return CHECK if any(isinstance(model, CheckedModel) for model in report.models) else "validate"


def fix_of(finding: Finding) -> str:
    """Return what to do about a finding, after a line break; nothing for a check, whose message says it."""
    return "" if finding.name == CHECK else f"\nfix: {rules.get(finding.code).remedy}"


def repository_path(path: str) -> str:
    """Return the path of :func:`from_repository`, with ``/`` as separator."""
    return from_repository(path).as_posix()


def place(finding: Finding) -> str:
    """Return the node with its scope, escaped; empty for findings about the model."""
    if finding.node is None:
        return ""
    return escape(scoped(finding.node, finding.graph))


def sentence(finding: Finding) -> str:
    """Return node, message and expected value in one escaped line."""
    where = f"{place(finding)}: " if finding.node is not None else ""
    wanted = f"; expected {escape(finding.expected)}" if finding.expected is not None else ""
    return f"{where}{escape(finding.message)}{wanted}"


def worst_first(report: ValidateReport) -> Iterator[tuple[ModelReport, TargetReport, Finding]]:
    """Yield every finding with its model and target: first errors, then warnings, then infos."""
    found = [
        (model, target, finding) for model in report.models for target in model.targets for finding in target.findings
    ]
    yield from sorted(found, key=lambda each: SEVERITIES.index(each[2].severity))


def counts(report: ValidateReport) -> str:
    """Return the last line of a report: ``2 models, 1 error, 0 warnings, 0 infos, 3 suppressed``."""
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
    """Return the root of the git repository of the working directory, or the working directory if there is none."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def from_repository(path: str) -> PurePath:
    """Return a path relative to :func:`repository_root`, or the absolute path for a file outside."""
    absolute, root = Path(os.path.normpath(Path.cwd() / path)), repository_root()
    return absolute.relative_to(root) if absolute.is_relative_to(root) else absolute


def file_uri(path: PurePath) -> str:
    """Return a URI reference: relative for a relative path, ``file:`` for an absolute one, also with a drive or server.

    Bytes that are not UTF-8 are percent-encoded.
    """
    return path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()))
