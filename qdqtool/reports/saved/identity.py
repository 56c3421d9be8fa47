"""Decide whether two reports are about the same model: by the digests of its files, or by paths if one is unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Never

from qdqtool.accuracy.checking.report import CheckReport
from qdqtool.engines.build.report import EngineReport, RefusedReport
from qdqtool.engines.report import LayerMap
from qdqtool.errors import UsageError
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.jobs.inspect_report import InspectReport
from qdqtool.jobs.quantize_report import QuantizeReport
from qdqtool.jobs.sensitivity_report import SensitivityReport
from qdqtool.linting.report import ModelReport, ValidateReport
from qdqtool.models.graph.report import ModelFile
from qdqtool.reports.saved.reading import FailedCommand, SavedReport

DIGITS = 12
"""How many digits of a digest messages show."""
ANOTHER_MODEL = "to compare two models, put --against before each report of the second one"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a report states about a model: its path, and the digests of its file.

    Attributes:
        source: The report.
        path: The file of the model.
        file: Digests of the file; None if the report has none.
        command: The command that printed the report.
    """

    source: str
    path: str
    file: ModelFile | None = None
    command: str = ""

    def __str__(self) -> str:
        return self.path if self.file is None else f"{self.path} (SHA-256 {self.file.sha256[:DIGITS]}…)"


def same_model(first: Claim, second: Claim) -> bool:
    """Return whether two reports are about one model: equal digests, or equal paths if a digest is unknown."""
    if first.file is not None and second.file is not None:
        return same_content(first.file, second.file)
    return same_file(first.path, second.path)


def same_file(first: str, second: str) -> bool:
    """Return whether two paths may name the same file: one ends with the other, folder by folder."""
    a, b = _parts(first), _parts(second)
    shorter = min(len(a), len(b))
    return a[-shorter:] == b[-shorter:]


def agreed(claims: Iterable[Claim], what: str) -> Claim | None:
    """Join claims about one model: the longest path, and the digests that a claim has. None without claims.

    Raises:
        UsageError: Two reports are about different models.
    """
    known: list[Claim] = []
    for claim in claims:
        if not claim.path and claim.file is None:  # a model in memory
            continue
        other = _contradicted(claim, known)
        if other is not None:
            raise UsageError(
                f"the reports do not belong together: the {what} is {other} in {other.source}, "
                f"but {claim} in {claim.source}",
                hint=claim_hint(claim, other),
            )
        known.append(claim)
    if not known:
        return None
    longest = max(known, key=lambda claim: len(_parts(claim.path)))
    file = next((claim.file for claim in known if claim.file is not None), None)
    return Claim(longest.source, longest.path, file, longest.command)


def _contradicted(claim: Claim, known: list[Claim]) -> Claim | None:
    """Return a known claim with other digests, or the first one if no known claim is about this model."""
    for other in known:
        if claim.file is not None and other.file is not None and not same_model(claim, other):
            return other
    return known[0] if known and not any(same_model(claim, other) for other in known) else None


def claim_hint(claim: Claim, other: Claim) -> str:
    """Return the hint for reports of different models: to make the older one again, or to compare two models."""
    if claim.file is None or other.file is None or not same_file(claim.path, other.path):
        return f"give the reports of one model; {ANOTHER_MODEL}"
    again = f"run `qdqtool {other.command}` and `qdqtool {claim.command}` again"
    return f"the file was changed between the two reports: {again}; {ANOTHER_MODEL}"


def refuse(claims: Sequence[Claim], others: Iterable[Claim], alike: Claim) -> Never:
    """Refuse a report about other models than the other reports; the hint is about the most similar model."""
    about, rest = ", ".join(map(str, claims)), " and ".join(map(str, others))
    raise UsageError(
        f"the reports do not belong together: {claims[0].source} is about {about}, the other reports about {rest}",
        hint=claim_hint(claims[0], alike),
    )


def same_content(first: ModelFile, second: ModelFile) -> bool:
    """Return whether all known digests of two files are equal."""
    if first.sha256 != second.sha256:
        return False
    others = {each.name: each for each in second.external_data}
    pairs = [(each, others[each.name]) for each in first.external_data if each.name in others]
    return all(a.bytes == b.bytes and (None in {a.sha256, b.sha256} or a.sha256 == b.sha256) for a, b in pairs)


def _parts(path: str) -> tuple[str, ...]:
    found = PurePosixPath(path.replace("\\", "/")).parts
    return tuple(part for part in found if part not in {".", ".."})


_OF_FLOAT = ("convert", "quantize", "sensitivity")
"""Commands whose ``model`` is the float model."""


def quantized_claims(report: SavedReport) -> Iterator[Claim]:
    """Yield the claim of a report about the quantized model, if it has one."""
    claim = partial(Claim, report.source, command=report.command)
    match report.content:
        case QuantizeReport(output=path, output_file=file):
            yield claim(path, file)
        case CheckReport(model=path, model_file=file) | EngineReport(model=path, model_file=file):
            yield claim(path, file)
        case RefusedReport(model=path, model_file=file):
            yield claim(path, file)
        case InspectReport(model=path, model_file=file, groups=groups) if groups:
            yield claim(path, file)
        case LayerMap(model=str(path), model_file=file, nodes=nodes) if nodes:
            yield claim(path, file)
        case FailedCommand(command=command, model=path) if command not in _OF_FLOAT:
            yield claim(path)
        case _:
            return


def float_claims(report: SavedReport) -> Iterator[Claim]:
    """Yield the claim of a report about the float model, if it has one."""
    claim = partial(Claim, report.source, command=report.command)
    match report.content:
        case QuantizeReport(model=path, model_file=file) | SensitivityReport(model=path, model_file=file):
            yield claim(path, file)
        case ConversionReport(model=path):
            yield claim(path)
        case CheckReport(baseline=str(path), baseline_file=file):
            yield claim(path, file)
        case InspectReport(model=path, model_file=file, groups=()):
            yield claim(path, file)
        case LayerMap(model=str(path), model_file=file, nodes=()):
            yield claim(path, file)
        case FailedCommand(command=command, model=path) if command in _OF_FLOAT:
            yield claim(path)
        case _:
            return


def validated_claims(report: SavedReport) -> tuple[tuple[ModelReport, Claim], ...]:
    """Return each model of a report of ``validate`` with its claim; nothing for other reports."""
    if not isinstance(report.content, ValidateReport):
        return ()
    return tuple(
        (model, Claim(report.source, model.path, model.file, report.command)) for model in report.content.models
    )
