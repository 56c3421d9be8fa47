"""The list of JSON Schemas for a terminal."""

from rich.console import Console

from qdqtool.reports.schemas import SchemaList
from qdqtool.reports.terminal import make_table


def render(report: SchemaList, console: Console) -> None:
    """Print a row for each schema."""
    table = make_table("schema", "about")
    for each in report.schemas:
        table.add_row(each.name, each.about)
    console.print(table)
    console.print("`qdqtool schema NAME` prints one; `qdqtool explain stability` says when they change")
