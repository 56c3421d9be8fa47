"""The command ``report``: make one HTML page from saved JSON reports."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from qdqtool.errors import QdqError
from qdqtool.jobs.conversion.report import ConversionReport
from qdqtool.models.graph.io.output import check_output, write_output
from qdqtool.reports.page.html import render
from qdqtool.reports.page.pair import JudgedModel, judge_all, judged
from qdqtool.reports.saved.grouping import group
from qdqtool.reports.saved.reading import FailedCommand, SavedReport, read_document, read_reports
from qdqtool.results import Report, VerdictWord


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedModel:
    """The second model of a page, or one of a list.

    Attributes:
        model: The quantized model; None if no report names it.
        verdict: The verdict on the model.
        reason: The verdict in one sentence.
    """

    model: str | None
    verdict: VerdictWord
    reason: str

    @staticmethod
    def of(model: JudgedModel) -> ComparedModel:
        """Return the entry of a model for the report about the page."""
        return ComparedModel(
            model=model.story.quantized_model, verdict=model.verdict.overall, reason=model.verdict.sentence
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport(Report):
    """The page that was written.

    Attributes:
        output: The HTML file.
        bytes: Its size.
        reports: The files from which the page was made; the files of the second model come last.
        verdict: ``failed`` if a gate of any report failed; ``warning`` if a user should know something before
            deployment, or if no report judges the model; else ``passed``. If two models are compared, the verdict on
            the first model.
        reason: The verdict in one sentence.
        model: The quantized model, the first one of two; None if no report names it, or for a list of models.
        against: The model that it is compared with; None if none is compared.
        models: The models of a list; empty if the page is about one model or compares two.
    """

    output: str
    bytes: int
    reports: tuple[str, ...]
    verdict: VerdictWord
    reason: str
    model: str | None
    against: ComparedModel | None = None
    models: tuple[ComparedModel, ...] = ()


_MOST_BYTES = 8_000_000
"""Size of the largest picture that a page has."""


def write_page(
    reports: Sequence[str | Path | Report], output: str | Path, *, against: Sequence[str | Path | Report] = ()
) -> PageReport:
    """Write one HTML page about a quantized model, or about two models side by side, from JSON reports.

    The page needs no other file and makes no request. The same reports give the same bytes.

    Args:
        reports: Files with the output of ``--output-format json`` or ``report.json`` of ``convert``, or report objects
            of this library. All reports are about one model. If ``against`` is empty, they may be about two models that
            reports of ``quantize`` or ``convert`` distinguish by digests, or about several models of a settings file.
        output: The HTML file to write.
        against: Reports of a second model for comparison.

    Raises:
        UsageError: A file is not a report, or the reports contradict each other or are about more than two models.
        OutputError: The page cannot be written.
    """
    output = Path(output)
    files, others = _files(reports), _files(against)
    check_output(output, [*files, *others])
    models = judged(group(_saved(reports, others), _saved(against, files)))
    first, *more = models
    listed = models if more and not first.letter else ()
    found = judge_all(listed) if listed else first.verdict
    picture = b"" if more else _picture(first.story.reports, {file.parent for file in files})
    page = render(models, picture).encode()
    write_output(output, page)
    return PageReport(
        output=str(output),
        bytes=len(page),
        reports=(*_report_names(reports), *_report_names(against)),
        verdict=found.overall,
        reason=found.sentence,
        model=None if listed else first.story.quantized_model,
        against=None if listed else next((ComparedModel.of(model) for model in more), None),
        models=tuple(map(ComparedModel.of, listed)),
    )


def _files(reports: Sequence[str | Path | Report]) -> list[Path]:
    return [Path(each) for each in reports if not isinstance(each, Report)]


def _saved(reports: Sequence[str | Path | Report], others: Sequence[Path]) -> tuple[SavedReport, ...]:
    held = (saved for each in reports if isinstance(each, Report) for saved in _read(each))
    return *read_reports(_files(reports), others), *held


def _report_names(reports: Sequence[str | Path | Report]) -> tuple[str, ...]:
    held = (type(each).__name__ for each in reports if isinstance(each, Report))
    return *map(str, _files(reports)), *held


def page_of_report(report: Report) -> bytes:
    """Return the page of one report that was not saved."""
    return _page(_read(report, "this run"))


def page_of_document(document: bytes, source: str, folder: Path) -> bytes:
    """Return the page of a JSON report named ``source``; the picture of its images may be in ``folder``."""
    reports = read_document(msgspec.json.decode(document), source)
    return _page(reports, _picture(reports, {folder}))


def _picture(reports: Sequence[SavedReport], folders: Iterable[Path]) -> bytes:
    """Return the picture of preprocessed images that a conversion wrote, if its digest is still the same."""
    contents = (report.content for report in reports)
    names = {
        (Path(file.name).name, file.sha256)
        for content in contents
        if isinstance(content, ConversionReport)
        for file in content.files
        if file.what == "preview"
    }
    for path, sha256 in ((folder / name, sha256) for folder in folders for name, sha256 in names):
        if path.is_file() and path.stat().st_size < _MOST_BYTES:
            picture = path.read_bytes()
            if hashlib.sha256(picture).hexdigest() == sha256:
                return picture
    return b""


def page_of_failure(error: QdqError, command: str, model: str) -> bytes:
    """Return the page of a command that ended without a report."""
    failed = FailedCommand(
        command=command, model=model, message=error.message, hint=error.hint, exit_code=error.exit_code
    )
    return _page((SavedReport("this run", command, failed),))


def _read(report: Report, source: str | None = None) -> tuple[SavedReport, ...]:
    return read_document(report.to_dict(), source or type(report).__name__)


def _page(reports: tuple[SavedReport, ...], picture: bytes = b"") -> bytes:
    return render(judged(group(reports)), picture).encode()
