"""A page of the manual: as it is in a pipe, laid out on a terminal."""

from rich.console import Console
from rich.markdown import Markdown

from qdqtool.jobs.pages import Page
from qdqtool.reports.terminal import print_unbroken


def render(report: Page, console: Console) -> None:
    """Print the page."""
    if console.is_terminal:
        console.print(Markdown(report.text, hyperlinks=False), soft_wrap=False)
    else:
        print_unbroken(report.text.rstrip(), console)
