"""Baselines: known and accepted findings, so that only new findings count."""

import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from qdqtool.errors import UsageError
from qdqtool.findings import Finding
from qdqtool.graph.io.save import write_atomically
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport, target_report, validate_report

SCHEMA_VERSION = 1
MAX_BYTES = 1 << 28


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One known finding.

    Attributes:
        model: Path of the model, relative to the baseline's folder, with ``/``.
        target: Target id.
        code: Rule code.
        fingerprint: Fingerprint by names.
        structure: Fingerprint by structure.
        message: For readers; not compared.
    """

    model: str
    target: str
    code: str
    fingerprint: str
    structure: str
    message: str = ""


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A decoded baseline file."""

    schema_version: int
    findings: list[Entry]


@dataclass(frozen=True, slots=True)
class Compared:
    """A report without the findings that a baseline holds.

    Attributes:
        report: The new findings; known findings are counted.
        gone: Number of entries for the models and targets of the run that match no finding any more.
    """

    report: ValidateReport
    gone: int


def read_baseline(path: Path) -> Baseline:
    """Decode a baseline strictly.

    Raises:
        UsageError: It cannot be read or is not a baseline.
    """
    hint = f"write it anew: qdqtool validate MODEL... --write-baseline {path}"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"baseline {path} is larger than {MAX_BYTES >> 20} MiB", hint=hint)
        found = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except OSError as error:
        raise UsageError(f"baseline {path} cannot be read: {error.strerror}", hint=hint) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"baseline {path} is none: {str(error).replace('`', chr(39))}", hint=hint) from None
    if found.schema_version != SCHEMA_VERSION:
        raise UsageError(
            f"baseline {path} has schema_version {found.schema_version}; this qdqtool reads {SCHEMA_VERSION}", hint=hint
        )
    return found


def write_baseline(report: ValidateReport, path: Path) -> int:
    """Write the findings of a run as a baseline, sorted; return their number.

    Raises:
        OutputError: The file cannot be written.
    """
    entries = sorted(_entries(report, path.parent), key=msgspec.structs.astuple)
    encoded = msgspec.json.encode(Baseline(schema_version=SCHEMA_VERSION, findings=entries))
    write_atomically(path, msgspec.json.format(encoded, indent=2) + b"\n")
    return len(entries)


def without_known(report: ValidateReport, baseline: Baseline, folder: Path) -> Compared:
    """Remove from a report the findings that a baseline holds.

    An entry matches one finding of its model and target: one with the same fingerprint, or, among the remaining ones,
    one with the same structure.

    Args:
        report: The findings of a run.
        baseline: The known findings.
        folder: The baseline's folder.
    """
    waiting: dict[tuple[str, str], list[Entry]] = {}
    for entry in baseline.findings:
        waiting.setdefault((entry.model, entry.target), []).append(entry)
    models, gone = [], 0
    for model in report.models:
        path, reports = _shown(model, folder), []
        for target in model.targets:
            left, unused = _new(target, waiting.pop((path, target.target), []))
            reports.append(left)
            gone += unused
        models.append(replace(model, targets=tuple(reports)))
    return Compared(validate_report(models), gone)


def _new(target: TargetReport, entries: list[Entry]) -> tuple[TargetReport, int]:
    findings = list(target.findings)
    for key in (_both, operator.attrgetter("fingerprint"), operator.attrgetter("structure")):
        findings, entries = _unmatched(findings, entries, key)
    known = len(target.findings) - len(findings)
    return target_report(
        target.target, findings, checked=target.checked, suppressed=target.suppressed, known=target.known + known
    ), len(entries)


def _both(each: Finding | Entry) -> tuple[str, str]:
    return each.fingerprint, each.structure


def _unmatched(
    findings: list[Finding], entries: list[Entry], key: Callable[[Finding | Entry], object]
) -> tuple[list[Finding], list[Entry]]:
    """Return the findings without an entry of the same key, and the entries without a finding; each matches once."""
    waiting: dict[object, list[Entry]] = {}
    for entry in entries:
        waiting.setdefault(key(entry), []).append(entry)
    rest = []
    for finding in findings:
        fitting = waiting.get(key(finding))
        if fitting:
            fitting.pop()
        else:
            rest.append(finding)
    return rest, [entry for left in waiting.values() for entry in left]


def _entries(report: ValidateReport, folder: Path) -> Iterator[Entry]:
    for model in report.models:
        path = _shown(model, folder)
        for target in model.targets:
            yield from (_entry(finding, path, target.target) for finding in target.findings)


def _entry(finding: Finding, path: str, target: str) -> Entry:
    return Entry(
        model=path,
        target=target,
        code=finding.code,
        fingerprint=finding.fingerprint,
        structure=finding.structure,
        message=f"{finding.node}: {finding.message}" if finding.node else finding.message,
    )


def _shown(model: ModelReport, folder: Path) -> str:
    try:
        return Path(os.path.relpath(model.path, folder)).as_posix()
    # There is no relative path to another Windows drive.
    except ValueError:
        return Path(model.path).as_posix()
