"""The command ``report``: saved JSON reports in, one HTML page out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qdqtool.graph.io.output import check_output, write_output
from qdqtool.page.html import render
from qdqtool.page.reading import read_reports
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


def write_page(reports: Sequence[str | Path], output: str | Path) -> PageReport:
    """Write one HTML page about a quantized model, made of saved JSON reports.

    The page needs no other file and makes no request. The same reports give the same bytes.

    Args:
        reports: Files with what ``--output-format json`` prints, or ``report.json`` of ``convert``; of one model.
        output: The HTML file to write.

    Raises:
        UsageError: A file is no report, or the reports are of several models.
        OutputError: The page cannot be written.
    """
    paths, output = [Path(each) for each in reports], Path(output)
    check_output(output, paths)
    story = join(read_reports(paths))
    verdict = judge(story)
    page = render(story, verdict).encode()
    write_output(output, page)
    return PageReport(
        output=str(output),
        bytes=len(page),
        reports=tuple(map(str, paths)),
        verdict=verdict.overall,
        reason=verdict.sentence,
        model=story.quantized_model,
    )
