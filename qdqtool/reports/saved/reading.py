"""Read saved JSON reports, and recognize the command of each report by its keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.report import LayerMap
from qdqtool.errors import UsageError
from qdqtool.jobs.check_models_report import ChecksReport
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.linting.report import ValidateReport
from qdqtool.reports.schemas import schema_names, schema_text
from qdqtool.results import SCHEMA_VERSION, Report, decode


@dataclass(frozen=True, slots=True)
class _Kind:
    command: str
    content: type[Report]
    keys: frozenset[str]
    """Keys by which a report of this kind is recognized: no other report has all of them."""


_KINDS = (
    _Kind("convert", ConversionReport, frozenset({"folder", "steps", "measured_on"})),
    _Kind("quantize", QuantizeReport, frozenset({"mode", "quantized", "skipped", "sizes"})),
    _Kind("validate", ValidateReport, frozenset({"models", "summary", "settings"})),
    _Kind("check", CheckReport, frozenset({"gates", "boundaries", "reference"})),
    _Kind("check", ChecksReport, frozenset({"settings", "exit_code", "models"})),
    _Kind("build", EngineReport, frozenset({"engine", "evidence", "nodes", "gates"})),
    _Kind("build", RefusedReport, frozenset({"stage", "refusals"})),
    _Kind("sensitivity", SensitivityReport, frozenset({"weights_only_db", "nodes", "runs"})),
    _Kind("inspect", InspectReport, frozenset({"coverage", "groups", "opset_imports"})),
    _Kind("inspect LAYERS", LayerMap, frozenset({"layer_file", "by_type", "layers"})),
)
COMMANDS = tuple(dict.fromkeys(kind.command for kind in _KINDS))
"""The commands whose reports a page can show."""
_HINT = f"a page needs JSON reports of these commands: {', '.join(COMMANDS)}"

_CURVE_HINT = "remove this file: the JSON report of quantize has the same curve"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCommand:
    """A command that ended without a report; only ``--report html=FILE`` makes a page about it.

    Attributes:
        command: The command.
        model: Its model.
        message: The fault in one line.
        hint: How to fix it; None if that is unknown.
        exit_code: The exit code of the command.
    """

    command: str
    model: str
    message: str
    hint: str | None
    exit_code: int


@dataclass(frozen=True, slots=True)
class SavedReport:
    """One report.

    Attributes:
        source: The name of the file (the path if two files have the same name), and the step of a conversion.
        command: The command that printed it.
        content: Its decoded content.
        qdqtool_version: The version that made it; None if the report has no version.
        is_step: Whether it is the report of a step of the conversion before it.
        listed_in: The settings file that lists its model, among others; empty for a report about one model.
    """

    source: str
    command: str
    content: Report | FailedCommand
    qdqtool_version: str | None = None
    is_step: bool = False
    listed_in: str = ""


def read_reports(paths: Sequence[Path], others: Sequence[Path] = ()) -> tuple[SavedReport, ...]:
    """Read files with reports. ``convert`` is followed by the reports of its steps; a check of several models is split.

    Args:
        paths: The files.
        others: Other files of the same page; the names in ``source`` must also differ from the names of these.
    """
    names = Counter(path.name for path in (*paths, *others))
    found = ((_read(path), path.name if names[path.name] == 1 else str(path)) for path in paths)
    return tuple(each for report, source in found for each in _with_steps(replace(report, source=source)))


def read_document(document: Mapping[str, Any], source: str) -> tuple[SavedReport, ...]:
    """Recognize a decoded report, and return the reports that it consists of, as :func:`read_reports` does."""
    return tuple(_with_steps(_recognized(document, source)))


def _read(path: Path) -> SavedReport:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"report {path} cannot be read: {error.strerror or error}") from None
    try:
        document = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a JSON report: {error}", hint=_HINT) from None
    return _recognized(document, str(path))


def _recognized(document: Mapping[str, Any], source: str) -> SavedReport:
    kind = next((kind for kind in _KINDS if kind.keys <= document.keys()), None)
    if kind is None:
        hint = _CURVE_HINT if _fits(document, "curve-file") else _HINT
        raise UsageError(f"{source} {_describe_document(document)}", hint=hint)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise UsageError(
            f"{source} has schema_version {version!r}, but this version of qdqtool reads {SCHEMA_VERSION}",
            hint=f"make it again with the installed version: qdqtool {kind.command}",
        )
    try:
        content = decode(upgraded(document), kind.content, _step_report)
        qdqtool_version = msgspec.convert(document.get("qdqtool_version"), str | None)
    except msgspec.ValidationError as error:
        raise UsageError(f"{source} is a damaged report of `qdqtool {kind.command}`: {error}") from None
    return SavedReport(source, kind.command, content, qdqtool_version)


@dataclass(frozen=True, slots=True)
class _StepReport(Report):
    """The saved report of a step of a conversion: its keys show its command."""

    keys: dict[str, Any]

    def document(self) -> dict[str, Any]:
        return self.keys


def _step_report(kind: type, value: Any) -> Any:
    return _StepReport(value) if kind is Report and isinstance(value, dict) else value


_ADDED: Mapping[str, Mapping[str, Any]] = {
    "": {"separated": [], "hint": None},
    "calibration": {"method": ""},
    "data": {"shapes": {}},
    "nodes": {"exclude": []},
    "preprocessing": {"kind": "images"},
}
"""Keys that the first versions did not write, with their values, by the key of the object that contains them."""


def upgraded(value: Any, key: str = "") -> Any:
    """Add the keys of this version to a report of an older version, or to the value at ``key``."""
    if isinstance(value, list):
        return [upgraded(each, key) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {name: upgraded(inner, name) for name, inner in {**_ADDED.get(key, {}), **value}.items()}


def _describe_document(document: Mapping[str, Any]) -> str:
    """Describe a document that a page cannot show: a failed command, a report of another kind, or no report."""
    error = document.get("error")
    if document.keys() == {"schema_version", "error"} and isinstance(error, dict):
        return f"is not a report: it holds the error of a failed command: {error.get('message')}"
    found = next((name for name in schema_names() if _fits(document, name)), None)
    return f"is '{found}' (`qdqtool schema {found}`): a page cannot show it" if found else "is not a report of qdqtool"


def _fits(document: Mapping[str, Any], name: str) -> bool:
    required = msgspec.json.decode(schema_text(name)).get("required", ())
    return len(required) > 1 and document.keys() == set(required)


def step_source(conversion: str, step: str) -> str:
    """Return how the page names the report of one conversion step."""
    return f"{conversion}, step {step}"


def _with_steps(report: SavedReport) -> Iterator[SavedReport]:
    if isinstance(report.content, ChecksReport):
        yield from _checks(report.source, report.content)
        return
    yield report
    if isinstance(report.content, ConversionReport):
        for step in report.content.steps:
            if step.report is not None:
                found = _recognized(step.report.document(), step_source(report.source, step.step))
                if found.command != step.step:
                    raise UsageError(f"{found.source} is a report of `qdqtool {found.command}`, not of {step.step}")
                yield replace(found, is_step=True)


def _checks(source: str, checks: ChecksReport) -> Iterator[SavedReport]:
    """Yield the check of each model that a settings file lists."""
    for at, each in enumerate(checks.models, 1):
        failed = FailedCommand(
            command="check",
            model=each.model,
            message="; ".join(reason.detail for reason in each.reasons),
            hint=next((reason.hint for reason in each.reasons if reason.hint), None),
            exit_code=each.exit_code,
        )
        found = SavedReport(f"{source}, model {at}", "check", failed)
        if each.report is not None:
            found = _recognized(each.report.document(), found.source)
            if not isinstance(found.content, CheckReport):
                raise UsageError(f"{found.source} is no report of `qdqtool check`")
        yield replace(found, listed_in=checks.settings)
