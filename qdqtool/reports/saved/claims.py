"""Which models a report names: path and digests of the float and of the quantized model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from qdqtool.reports.saved.identity import Claim
from qdqtool.reports.saved.reading import SavedReport
from qdqtool.reports.saved.stored_parts import StoredModel
from qdqtool.reports.saved.stored_reports import (
    FailedCommand,
    StoredBuild,
    StoredCheck,
    StoredConvert,
    StoredInspect,
    StoredQuantize,
    StoredRefusedBuild,
    StoredSensitivity,
    StoredValidate,
)

_OF_FLOAT = ("convert", "quantize", "sensitivity")
"""Commands whose model is the float model."""


def quantized_claims(report: SavedReport) -> Iterator[Claim]:
    """Yield what a report says of the quantized model; nothing where it is not about one."""
    claim = partial(Claim, report.source, command=report.command)
    match report.content:
        case StoredQuantize(output=path, output_file=file):
            yield claim(path, file)
        case StoredCheck(model=path, model_file=file) | StoredBuild(model=path, model_file=file):
            yield claim(path, file)
        case StoredRefusedBuild(model=path, model_file=file):
            yield claim(path, file)
        case StoredInspect(model=path, model_file=file, groups=groups) if groups:
            yield claim(path, file)
        case FailedCommand(command=command, model=path) if command not in _OF_FLOAT:
            yield claim(path)
        case _:
            return


def float_claims(report: SavedReport) -> Iterator[Claim]:
    """Yield what a report says of the float model; nothing where it names none."""
    claim = partial(Claim, report.source, command=report.command)
    match report.content:
        case StoredQuantize(model=path, model_file=file) | StoredSensitivity(model=path, model_file=file):
            yield claim(path, file)
        case StoredConvert(model=path):
            yield claim(path)
        case StoredCheck(baseline=str(path), baseline_file=file):
            yield claim(path, file)
        case StoredInspect(model=path, model_file=file, groups=()):
            yield claim(path, file)
        case FailedCommand(command=command, model=path) if command in _OF_FLOAT:
            yield claim(path)
        case _:
            return


def validated_claims(report: SavedReport) -> tuple[tuple[StoredModel, Claim], ...]:
    """Return each model of a report of ``validate``; nothing for another report."""
    if not isinstance(report.content, StoredValidate):
        return ()
    return tuple(
        (model, Claim(report.source, model.path, model.file, report.command)) for model in report.content.models
    )
