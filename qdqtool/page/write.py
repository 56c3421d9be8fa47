"""The command ``report``: saved JSON reports in, one HTML page out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from qdqtool.errors import QdqError
from qdqtool.graph.io.output import check_output, write_output
from qdqtool.page.html import render
from qdqtool.page.reading import SavedReport, read_document, read_reports
from qdqtool.page.stored_reports import FailedCommand
from qdqtool.page.story import join
from qdqtool.page.verdict import Overall, judge
from qdqtool.results import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport(Report):
    """What was written.

    Attributes:
        output: The HTML file.
        bytes: Its size.
        reports: The files it was made of.
        verdict: ``failed`` where a gate of any report failed, ``passed`` where all is known and passed, else
            ``unknown``.
        reason: The verdict in one sentence.
        model: The quantized model; None where no report names it.
    """

    output: str
    bytes: int
    reports: tuple[str, ...]
    verdict: Overall
    reason: str
    model: str | None


def write_page(reports: Sequence[str | Path | Report], output: str | Path) -> PageReport:
    """Write one HTML page about a quantized model, made of JSON reports.

    The page needs no other file and makes no request. The same reports give the same bytes.

    Args:
        reports: Files with what ``--output-format json`` prints, or ``report.json`` of ``convert``; or reports as the
            functions of this library return them. All are of one model.
        output: The HTML file to write.

    Raises:
        UsageError: A file is no report, or the reports are of several models.
        OutputError: The page cannot be written.
    """
    files, output = [Path(each) for each in reports if isinstance(each, str | Path)], Path(output)
    check_output(output, files)
    held = [each for each in reports if isinstance(each, Report)]
    story = join((*read_reports(files), *(saved for each in held for saved in _read(each))))
    verdict = judge(story)
    page = render(story, verdict).encode()
    write_output(output, page)
    return PageReport(
        output=str(output),
        bytes=len(page),
        reports=(*map(str, files), *(type(each).__name__ for each in held)),
        verdict=verdict.overall,
        reason=verdict.sentence,
        model=story.quantized_model,
    )


def page_of_report(report: Report) -> bytes:
    """Return the page of one report, which was not saved.

    Raises:
        UsageError: A page shows no such report.
    """
    return _page(_read(report, "this run"))


def page_of_document(document: bytes, source: str) -> bytes:
    """Return the page of one JSON report, which ``source`` names."""
    return _page(read_document(msgspec.json.decode(document), source))


def page_of_failure(error: QdqError, command: str, model: str) -> bytes:
    """Return the page of a command that ended without a report.

    Args:
        error: Why it ended.
        command: Its name.
        model: Its model.
    """
    failed = FailedCommand(
        command=command, model=model, message=error.message, hint=error.hint, exit_code=error.exit_code
    )
    return _page((SavedReport("this run", command, failed),))


def _read(report: Report, source: str | None = None) -> tuple[SavedReport, ...]:
    return read_document(report.to_dict(), source or type(report).__name__)


def _page(reports: tuple[SavedReport, ...]) -> bytes:
    story = join(reports)
    return render(story, judge(story)).encode()
