"""Read saved JSON reports, and recognize the command that printed each by its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.errors import UsageError
from qdqtool.reports.saved.stored_reports import (
    FailedCommand,
    StoredBuild,
    StoredCheck,
    StoredConvert,
    StoredInspect,
    StoredQuantize,
    StoredRefusedBuild,
    StoredReport,
    StoredSensitivity,
    StoredValidate,
)
from qdqtool.reports.schemas import schema_names, schema_text
from qdqtool.results import SCHEMA_VERSION


@dataclass(frozen=True, slots=True)
class _Kind:
    command: str
    content: type[StoredReport]
    keys: frozenset[str]
    """Keys that this report has, and no other."""


_KINDS = (
    _Kind("convert", StoredConvert, frozenset({"folder", "steps", "measured_on"})),
    _Kind("quantize", StoredQuantize, frozenset({"mode", "quantized", "skipped", "sizes"})),
    _Kind("validate", StoredValidate, frozenset({"models", "summary", "settings"})),
    _Kind("check", StoredCheck, frozenset({"gates", "boundaries", "reference"})),
    _Kind("build", StoredBuild, frozenset({"engine", "evidence", "nodes", "gates"})),
    _Kind("build", StoredRefusedBuild, frozenset({"stage", "refusals"})),
    _Kind("sensitivity", StoredSensitivity, frozenset({"weights_only_db", "nodes", "runs"})),
    _Kind("inspect", StoredInspect, frozenset({"coverage", "groups", "opset_imports"})),
)
COMMANDS = tuple(dict.fromkeys(kind.command for kind in _KINDS))
"""The commands whose reports a page can show."""
_HINT = f"a page is made of the JSON reports of these commands: {', '.join(COMMANDS)}"

_CURVE_HINT = "leave it out: the JSON report of quantize has the same states, and the page draws them"


@dataclass(frozen=True, slots=True)
class SavedReport:
    """One report.

    Attributes:
        source: The name of the file, its path where two have the same name, and the step of a conversion.
        command: The command that printed it.
        content: What it says.
        is_step: Whether it is of a step of the conversion before it.
    """

    source: str
    command: str
    content: StoredReport | FailedCommand
    is_step: bool = False


def read_reports(paths: Sequence[Path], others: Sequence[Path] = ()) -> tuple[SavedReport, ...]:
    """Read files with reports. A report of ``convert`` is followed by those of its steps.

    Args:
        paths: The files.
        others: Files of the same page that are read on their own, from which their names must differ.
    """
    names = Counter(path.name for path in (*paths, *others))
    found = ((_read(path), path.name if names[path.name] == 1 else str(path)) for path in paths)
    return tuple(each for report, source in found for each in _with_steps(replace(report, source=source)))


def read_document(document: Mapping[str, Any], source: str) -> tuple[SavedReport, ...]:
    """Recognize a report that was decoded already. A report of ``convert`` is followed by those of its steps.

    Args:
        document: Its keys.
        source: What the page calls it.
    """
    return tuple(_with_steps(_recognized(document, source)))


def _read(path: Path) -> SavedReport:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"report {path} cannot be read: {error.strerror or error}") from None
    try:
        document = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no JSON report: {error}", hint=_HINT) from None
    return _recognized(document, str(path))


def _recognized(document: Mapping[str, Any], source: str) -> SavedReport:
    kind = next((kind for kind in _KINDS if kind.keys <= document.keys()), None)
    if kind is None:
        hint = _CURVE_HINT if _fits(document, "curve-file") else _HINT
        raise UsageError(f"{source} {_told(document)}", hint=hint)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise UsageError(
            f"{source} has schema_version {version!r}, and this version of qdqtool reads {SCHEMA_VERSION}",
            hint=f"make it again with the installed version: qdqtool {kind.command}",
        )
    try:
        content = msgspec.convert(document, type=kind.content)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source} is a damaged report of `qdqtool {kind.command}`: {error}") from None
    return SavedReport(source, kind.command, content)


def _told(document: Mapping[str, Any]) -> str:
    """Say what a document is that no kind fits: the failure of a command, another report, or neither."""
    error = document.get("error")
    if document.keys() == {"schema_version", "error"} and isinstance(error, dict):
        return f"is the error of a command that failed, and no report: {error.get('message')}"
    found = next((name for name in schema_names() if _fits(document, name)), None)
    return (
        f"is '{found}' (`qdqtool schema {found}`), which a page does not show" if found else "is no report of qdqtool"
    )


def _fits(document: Mapping[str, Any], name: str) -> bool:
    required = msgspec.json.decode(schema_text(name)).get("required", ())
    return len(required) > 1 and document.keys() == set(required)


def step_source(conversion: str, step: str) -> str:
    """Return what the page calls the report of a step of a conversion."""
    return f"{conversion}, step {step}"


def _with_steps(report: SavedReport) -> Iterator[SavedReport]:
    yield report
    if isinstance(report.content, StoredConvert):
        for step in report.content.steps:
            if step.report is not None:
                found = _recognized(step.report, step_source(report.source, step.step))
                if found.command != step.step:
                    raise UsageError(f"{found.source} has the report of `qdqtool {found.command}`")
                yield replace(found, is_step=True)
