"""Baselines: files of known and accepted findings. Only new findings count, and known findings that got worse."""

import functools
import operator
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from qdqtool.errors import UsageError
from qdqtool.linting.findings import Extent, Finding
from qdqtool.linting.report import ModelReport, TargetReport, ValidateReport, validate_report, with_findings
from qdqtool.models.graph.index.structure import Neighbourhoods, context, digest
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.results import encode_plain

SCHEMA_VERSION = 2
"""Since version 2, entries store how bad each finding was. In version 1, a finding that got worse stayed known."""

MAX_BYTES = 1 << 28


# Numbered names from exporters, such as onnx::Conv_123, %42, val_7, add_3, or a plain number. One inserted node
# renumbers all later nodes.
_COUNTED = re.compile(r"(?:^|(?<=[/.:]))(?:onnx::\w+_|%|(?:val|value|tensor|node|add|mul)_|)\d+(?=$|[/_.:])")


class Fingerprints:
    """Computes the fingerprints and the context of findings, once for each node of a model.

    Attributes:
        context: Function that describes a node with its producers and consumers in one line.
    """

    def __init__(self) -> None:
        self._around = functools.cache(Neighbourhoods().around)
        self.context = functools.cache(context)

    def of(self, finding: Finding, node: NodeView | None) -> tuple[str, str]:
        """Return the fingerprint by names, and the fingerprint by structure alone.

        Both depend on the rule, the effect and the value found. If the finding has an extent, its kind replaces the
        value: :mod:`qdqtool.linting.baseline` compares the numbers. The first fingerprint adds the names of scope, node
        and tensor. Numbered names from exporters (``onnx::Conv_123``, ``val_7``, ``42``) are replaced by the operators
        around the node. The second fingerprint adds only these operators. Findings may share both.
        """
        value = finding.extent.kind if finding.extent is not None else finding.found or ""
        salient = (finding.code, finding.effect, value)
        if node is None:
            # A finding about the model as a whole has no node, and so no structure.
            return digest(*salient, finding.tensor or ""), digest(*salient)
        around = self._around(node)
        names = (_canonical(name, around) for name in (finding.graph, _name(node), finding.tensor or ""))
        return digest(*salient, *names), digest(*salient, around)


def _name(node: NodeView) -> str:
    return node.proto.name or next(filter(None, node.proto.output), "")


def _canonical(name: str, around: str) -> str:
    return _COUNTED.sub(f"<{around}>", name)


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One known finding.

    Attributes:
        model: Path of the model relative to the baseline's folder, with ``/`` as separator.
        target: Target id.
        code: Rule code.
        fingerprint: Fingerprint by names.
        structure: Fingerprint by structure.
        message: Message of the finding, for readers of the file; it is not compared.
        count: ``count`` of the finding's extent; 1 if there is no extent.
        degree: ``degree`` of the finding's extent; 0 if there is no extent.
    """

    model: str
    target: str
    code: str
    fingerprint: str
    structure: str
    message: str = ""
    count: int = 1
    degree: float = 0.0


class Baseline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A decoded baseline file.

    Attributes:
        schema_version: Version of the file format, currently always 2.
        findings: The known findings.
    """

    schema_version: int
    findings: list[Entry]


@dataclass(frozen=True, slots=True)
class Compared:
    """A report without the known findings of a baseline.

    Attributes:
        report: The new findings, and the number of known findings.
        gone: Number of entries, for the models and targets of the run, that match no finding any more.
        worse: Number of known findings that got worse, and therefore count as new. Their entries are not in ``gone``.
    """

    report: ValidateReport
    gone: int
    worse: int


def read_baseline(path: Path) -> Baseline:
    """Decode a baseline strictly.

    Raises:
        UsageError: The file cannot be read or is not a baseline.
    """
    hint = f"write a new one: `qdqtool validate MODEL... --write-baseline {shlex.quote(str(path))}`"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"baseline {path} is larger than {MAX_BYTES >> 20} MiB", hint=hint)
        found = msgspec.json.decode(path.read_bytes(), type=Baseline)
    except OSError as error:
        raise UsageError(f"baseline {path} cannot be read: {error.strerror}", hint=hint) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not a baseline: {str(error).replace('`', chr(39))}", hint=hint) from None
    if found.schema_version != SCHEMA_VERSION:
        raise UsageError(
            f"baseline {path} has schema_version {found.schema_version}; expected {SCHEMA_VERSION}, which "
            "also stores the severity of each finding",
            hint=f"check the findings without the baseline, then {hint}",
        )
    return found


def write_baseline(report: ValidateReport, path: Path) -> int:
    """Write the findings of a run as a baseline, sorted; return their number.

    Raises:
        UsageError: The file is one of the models.
    """
    check_output(path, [Path(model.path) for model in report.models])
    entries = sorted(_entries(report, path.parent), key=msgspec.structs.astuple)
    encoded = encode_plain(Baseline(schema_version=SCHEMA_VERSION, findings=entries))
    write_output(path, msgspec.json.format(encoded, indent=2) + b"\n")
    return len(entries)


def without_known(report: ValidateReport, baseline: Baseline, folder: Path) -> Compared:
    """Remove the findings of a baseline from a report.

    An entry matches one finding of its model and target that is not worse than the entry. The finding must have the
    same fingerprint or, if no such finding is left, the same structure.
    """
    waiting: dict[tuple[str, str], list[Entry]] = {}
    for entry in baseline.findings:
        waiting.setdefault((entry.model, entry.target), []).append(entry)
    models, gone, worse = [], 0, 0
    for model in report.models:
        path, reports = _shown(model, folder), []
        for target in model.targets:
            left, grown, unused = _new(target, waiting.pop((path, target.target), []))
            reports.append(left)
            gone += unused
            worse += grown
        models.append(replace(model, targets=tuple(reports)))
    return Compared(replace(validate_report(models), settings=report.settings), gone, worse)


def _new(target: TargetReport, entries: list[Entry]) -> tuple[TargetReport, int, int]:
    """Return the report without known findings, the number of findings that got worse, and of unused entries."""
    findings = list(target.findings)
    for key in _KEYS:
        findings, entries = _unmatched(findings, entries, key, _covers)
    others = findings
    for key in _KEYS:
        others, entries = _unmatched(others, entries, key, lambda _entry, _finding: True)
    known = len(target.findings) - len(findings)
    report = replace(with_findings(target, findings), known=target.known + known)
    return report, len(findings) - len(others), len(entries)


_KEYS: tuple[Callable[[Finding | Entry], object], ...] = (
    operator.attrgetter("fingerprint", "structure"),
    operator.attrgetter("fingerprint"),
    operator.attrgetter("structure"),
)
"""The keys by which an entry matches a finding, from the strongest evidence to the weakest."""


def _unmatched(
    findings: Iterable[Finding],
    entries: Iterable[Entry],
    key: Callable[[Finding | Entry], object],
    covers: Callable[[Entry, Finding], bool],
) -> tuple[list[Finding], list[Entry]]:
    """Match findings and entries with the same key; return the findings without an entry, and the unused entries."""
    # Each entry covers one finding. The worst finding takes the worst entry, so that entries suffice for equal keys.
    waiting: dict[object, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: (entry.degree, entry.count), reverse=True):
        waiting.setdefault(key(entry), []).append(entry)
    taken: set[int] = set()
    for place, finding in sorted(enumerate(findings), key=lambda each: _badness(each[1]), reverse=True):
        fitting = waiting.get(key(finding), [])
        match = next((entry for entry in fitting if covers(entry, finding)), None)
        if match is not None:
            fitting.remove(match)
            taken.add(place)
    rest = [finding for place, finding in enumerate(findings) if place not in taken]
    return rest, [entry for left in waiting.values() for entry in left]


def _badness(finding: Finding) -> tuple[float, int]:
    return (finding.extent.degree, finding.extent.count) if finding.extent is not None else (0.0, 1)


def _covers(entry: Entry, finding: Finding) -> bool:
    """Return whether the finding is not worse than the entry."""
    return finding.extent is None or not finding.extent.is_worse_than(Extent("", entry.count, entry.degree))


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
        count=finding.extent.count if finding.extent is not None else 1,
        degree=finding.extent.degree if finding.extent is not None else 0.0,
    )


def _shown(model: ModelReport, folder: Path) -> str:
    try:
        return Path(os.path.relpath(model.path, folder)).as_posix()
    # There is no relative path to another Windows drive.
    except ValueError:
        return Path(model.path).as_posix()
