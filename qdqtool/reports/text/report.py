"""The report about a page, for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.errors import escape, plural
from qdqtool.reports.page.write import ComparedModel, PageReport
from qdqtool.reports.text._shared import verdict_text


def render(report: PageReport, console: Console) -> None:
    """Print the verdict on each model of the page, and its file."""
    for each in report.models or (report,):
        _print_verdict("", each, console)
    if report.models:
        console.print(escape(report.reason))
    if report.against is not None:
        _print_verdict("against ", report.against, console)
    made_of = plural(len(report.reports), "report")
    console.print(Text.assemble("wrote ", (escape(report.output), "bold"), f" from {made_of}"))


def _print_verdict(before: str, found: PageReport | ComparedModel, console: Console) -> None:
    about = escape(found.model) if found.model is not None else "a model that no report names"
    console.print(Text.assemble(before, (about, "bold"), "  ", verdict_text(found.verdict)))
    console.print(escape(found.reason))
