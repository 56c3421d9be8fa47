"""The reports of one model, joined: reports of several models, or of several runs of ``quantize``, are refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from qdqtool.errors import UsageError
from qdqtool.page.reading import SavedReport
from qdqtool.page.stored_parts import StoredModel
from qdqtool.page.stored_reports import (
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

Content = TypeVar("Content", bound=StoredReport | FailedCommand)
_SINGLE = ("convert", "quantize", "sensitivity", "inspect")
"""Commands whose reports describe the same thing when there are two of them."""


_OF_FLOAT = ("convert", "quantize", "sensitivity")
"""Commands whose model is the float model."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a report says of the models: the file of the float model or of the quantized one."""

    source: str
    path: str


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that is known of one quantized model.

    Attributes:
        reports: The reports, in the order given.
        float_model: The file of the float model; None where no report names it.
        quantized_model: The file of the quantized model; None where no report names it.
    """

    reports: tuple[SavedReport, ...]
    float_model: str | None
    quantized_model: str | None

    def each(self, kind: type[Content]) -> Iterator[tuple[str, Content]]:
        """Yield the reports of a kind, each with its source."""
        for report in self.reports:
            if isinstance(report.content, kind):
                yield report.source, report.content

    def first(self, kind: type[Content]) -> Content | None:
        """Return the first report of a kind; None where there is none."""
        return next((content for _, content in self.each(kind)), None)

    def validated(self) -> Iterator[tuple[str, StoredModel]]:
        """Yield what ``validate`` says of the quantized model, each with its source."""
        for source, report in self.each(StoredValidate):
            for model in report.models:
                if self.quantized_model is None or same_file(model.path, self.quantized_model):
                    yield source, model


def join(reports: tuple[SavedReport, ...]) -> Story:
    """Join the reports of one model.

    Two paths name the same file where one ends with the other: reports may have been made from several folders.

    Raises:
        UsageError: There is no report, two reports are of different models, or a command comes twice that describes
            the whole model.
    """
    if not reports:
        raise UsageError("a page needs at least one report")
    for command in _SINGLE:
        found = [report.source for report in reports if report.command == command]
        if len(found) > 1:
            raise UsageError(
                f"{found[0]} and {found[1]} are two reports of `qdqtool {command}`: a page shows one model"
            )
    quantized = _agreed([claim for report in reports for claim in _quantized(report)], "quantized model")
    _check_validated(reports, quantized)
    _check_sizes(reports)
    baseline = _agreed([claim for report in reports for claim in _float(report)], "float model")
    _check_modes(reports)
    return Story(reports, baseline, quantized or _only_validated(reports))


def same_file(first: str, second: str) -> bool:
    """Return whether two paths may name the same file: one ends with the other, folder by folder."""
    a, b = _parts(first), _parts(second)
    shorter = min(len(a), len(b))
    return a[-shorter:] == b[-shorter:]


def _parts(path: str) -> tuple[str, ...]:
    found = PurePosixPath(path.replace("\\", "/")).parts
    return tuple(part for part in found if part not in {".", ".."})


def _quantized(report: SavedReport) -> Iterator[_Claim]:
    match report.content:
        case StoredQuantize(output=path) | StoredCheck(model=path) | StoredBuild(model=path):
            yield _Claim(report.source, path)
        case StoredRefusedBuild(model=path):
            yield _Claim(report.source, path)
        case StoredInspect(model=path, groups=groups) if groups:
            yield _Claim(report.source, path)
        case FailedCommand(command=command, model=path) if command not in _OF_FLOAT:
            yield _Claim(report.source, path)
        case _:
            return


def _float(report: SavedReport) -> Iterator[_Claim]:
    match report.content:
        case StoredQuantize(model=path) | StoredSensitivity(model=path) | StoredConvert(model=path):
            yield _Claim(report.source, path)
        case StoredCheck(baseline=str(path)):
            yield _Claim(report.source, path)
        case StoredInspect(model=path, groups=()):
            yield _Claim(report.source, path)
        case FailedCommand(command=command, model=path) if command in _OF_FLOAT:
            yield _Claim(report.source, path)
        case _:
            return


def _agreed(claims: Iterable[_Claim], what: str) -> str | None:
    """Return the longest of the paths that reports name, all of which name one file."""
    longest: _Claim | None = None
    for claim in claims:
        if not claim.path:  # a model in memory
            continue
        if longest is not None and not same_file(longest.path, claim.path):
            raise UsageError(
                f"the reports do not belong together: the {what} of {longest.source} is {longest.path}, "
                f"that of {claim.source} is {claim.path}",
                hint="give the reports of one model",
            )
        if longest is None or len(_parts(claim.path)) > len(_parts(longest.path)):
            longest = claim
    return None if longest is None else longest.path


def _check_validated(reports: Iterable[SavedReport], quantized: str | None) -> None:
    for report in reports:
        if isinstance(report.content, StoredValidate) and quantized is not None:
            paths = [model.path for model in report.content.models]
            if not any(same_file(path, quantized) for path in paths):
                raise UsageError(
                    f"the reports do not belong together: {report.source} is about {', '.join(paths) or 'no model'}, "
                    f"the others about {quantized}",
                    hint="give the reports of one model",
                )


def _only_validated(reports: Iterable[SavedReport]) -> str | None:
    paths = {
        model.path for each in reports if isinstance(each.content, StoredValidate) for model in each.content.models
    }
    if len(paths) > 1:
        raise UsageError(
            f"the reports are about {len(paths)} models, and a page shows one",
            hint="add the report of check or quantize of one of them",
        )
    return next(iter(paths), None)


def _check_sizes(reports: Iterable[SavedReport]) -> None:
    """A model that was quantized again under the same name has, as a rule, another size."""
    sizes = {
        each.source: size
        for each in reports
        for size in (
            (each.content.sizes.after,)
            if isinstance(each.content, StoredQuantize)
            else (each.content.bytes,)
            if isinstance(each.content, StoredInspect) and each.content.groups
            else ()
        )
    }
    if len(set(sizes.values())) > 1:
        (first, before), (second, after), *_ = sizes.items()
        raise UsageError(
            f"the reports do not belong together: the quantized model has {before} bytes in {first}, "
            f"{after} bytes in {second}",
            hint="make the older report again",
        )


def _check_modes(reports: Iterable[SavedReport]) -> None:
    modes = {
        each.source: each.content.mode
        for each in reports
        if isinstance(each.content, StoredQuantize | StoredSensitivity)
    }
    if len(set(modes.values())) > 1:
        (first, mode), (second, other) = modes.items()
        raise UsageError(
            f"the reports do not belong together: {first} is about {mode}, {second} about {other}",
            hint="measure the sensitivity in the mode of the quantized model",
        )
