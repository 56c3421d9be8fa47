"""Print pages of the manual, the list of pages and the list of schemas on a terminal."""

from rich.console import Console
from rich.markdown import Markdown

from qdqtool.jobs.pages import Manual, Page
from qdqtool.reports.schemas import SchemaList
from qdqtool.reports.terminal import FittedTable, print_unbroken


def render(report: Manual, console: Console) -> None:
    """Print a row for each page."""
    console.print(FittedTable("page", "about", rows=((page.name, page.title) for page in report.pages)))
    console.print("`qdqtool explain PAGE` shows one; `qdqtool rules` lists the rules")


def render_page(report: Page, console: Console) -> None:
    """Print the page."""
    if console.is_terminal:
        console.print(Markdown(report.text, hyperlinks=False), soft_wrap=False)
    else:
        print_unbroken(report.text.rstrip(), console)


def render_schemas(report: SchemaList, console: Console) -> None:
    """Print a row for each schema."""
    console.print(FittedTable("schema", "about", rows=((each.name, each.about) for each in report.schemas)))
    console.print("`qdqtool schema NAME` prints one; `qdqtool explain files` says when they change")
