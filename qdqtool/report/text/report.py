"""The report about a page, for a terminal."""

from rich.console import Console
from rich.text import Text

from qdqtool.page.write import PageReport
from qdqtool.report.terminal import escape
from qdqtool.wording import plural

_STYLES = {"passed": "green", "failed": "bold red", "unknown": "yellow"}
_WORDS = {"passed": "PASSED", "failed": "FAILED", "unknown": "INCOMPLETE"}


def render(report: PageReport, console: Console) -> None:
    """Print the verdict of the page, and where it is."""
    about = escape(report.model) if report.model is not None else "a model that no report names"
    console.print(Text.assemble((about, "bold"), "  ", (_WORDS[report.verdict], _STYLES[report.verdict])))
    console.print(escape(report.reason))
    made_of = plural(len(report.reports), "report")
    console.print(Text.assemble("wrote ", (escape(report.output), "bold"), f" from {made_of}"))
