"""Words and paths that several formats of findings share. Strings from models are escaped."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import quote

from qdqtool.errors import escape, plural
from qdqtool.linting import rules
from qdqtool.linting.findings import SEVERITIES, Finding
from qdqtool.linting.report import Cause, ModelReport, TargetReport, ValidateReport
from qdqtool.models import targets
from qdqtool.reports.advice import command
from qdqtool.reports.blocks import scoped

CHECK = "check"
"""The target of findings of ``check``, and their code if they are not about a gate."""


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
    """Return the remedy of a finding on a new line; empty for ``check``, whose messages contain the remedy."""
    return "" if finding.name == CHECK else f"\nfix: {rules.get(finding.code).remedy}"


def repository_path(path: str) -> str:
    """Return the path that :func:`from_repository` returns, with ``/`` as separator."""
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
    """Return the last line of a report: ``2 models for 2 targets, 1 error, 0 warnings, 0 infos, 3 suppressed``.

    A finding counts once for each target.
    """
    summary = report.summary
    numbers = (summary.errors, "error"), (summary.warnings, "warning"), (summary.infos, "info")
    targets = max((len(model.targets) for model in report.models), default=0)
    several = f" for {targets} targets" if targets > 1 else ""
    words = [plural(len(report.models), "model") + several, *(plural(count, noun) for count, noun in numbers)]
    further = (
        (summary.suppressed, "suppressed"),
        (summary.known, "in the baseline"),
        (summary.ignored, f"ignored ({', '.join(map(escape, report.ignored))})"),
        (sum(model.qdq_nodes == 0 for model in report.models), "without Q/DQ"),
        (len(report.unreadable), "unreadable"),
    )
    words += [f"{count} {what}" for count, what in further if count]
    return ", ".join(words)


def diagnosis(model: ModelReport, target: TargetReport, *, is_fixed: bool = False) -> tuple[str, ...]:
    """Return the causes that repeat in the findings of a model, and the shortest way to a model without them, as lines.

    Commands are between backticks.

    Args:
        model: The model.
        target: One of its targets.
        is_fixed: Whether the automatic fixes were tried already.
    """
    if not target.causes:
        return ()
    count = sum(cause.findings for cause in target.causes)
    lines = [f"{count} of {plural(len(target.findings), 'finding')} repeat {plural(len(target.causes), 'cause')}:"]
    lines += [f"  {_cause(cause)}{'' if is_fixed else _edits(cause)}" for cause in target.causes]
    if model.per_tensor_weights:
        weights = plural(model.per_tensor_weights, "weight")
        lines.append(f"  also {weights} with one scale for all channels: one scale for each channel is more accurate")
    return (*lines, *_ways(model.path, target, is_fixed=is_fixed))


def _cause(cause: Cause) -> str:
    return f"{cause.sites} x {escape(cause.cause)}: {plural(cause.findings, cause.severity)} {escape(cause.code)}"


def _edits(cause: Cause) -> str:
    number = "all" if cause.safe == cause.findings else cause.safe
    return f"; a safe edit for {number}" if cause.safe else "" if cause.fixable else "; no automatic fix"


def _ways(path: str, target: TargetReport, *, is_fixed: bool) -> Iterator[str]:
    """Yield the commands that make a model without these findings."""
    errors = [each for each in target.findings if each.severity == "error"]
    made = path.removesuffix(".onnx")
    asked = () if target.target == targets.DEFAULT else ("--target", target.target)
    is_repairable = not is_fixed and any(cause.safe for cause in target.causes)
    if not errors and not is_repairable:
        return
    if is_repairable and all(each.safe_fix for each in errors):
        words = command("validate", path, *asked, "--fix", "-o", f"{made}.fixed.onnx")
        yield f"shortest way: `{escape(words)}`"
        yield "a run proves the edits: `--data DATA` for dynamic shapes; `--unsafe-fixes` if the model cannot be run"
        return
    end = (*asked, "--calib-data", "DATA", "-o", f"{made}.new.onnx")
    yield f"shortest way: quantize the float model again: `{escape(command('quantize', 'FLOAT.onnx', *end))}`"
    if not any(cause.code == _OTHER_FORM for cause in target.causes):
        words = command("quantize", path, "--existing", "replace", *end)
        yield f"without the float model: `{escape(words)}`; its weights stay rounded"


_OTHER_FORM = "QT403"
"""The rule about operators that ``strip`` does not know; its remedy rewrites them as Q/DQ."""


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
