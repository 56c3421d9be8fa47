"""Hook of MkDocs: the page of the command line shows the help of every command, with all options."""

import re
from collections.abc import Iterator

import click
from click.testing import CliRunner

from qdqtool.cli import command as qdqtool

DIRECTIVE = re.compile(r"^::: commands$", re.MULTILINE)
WIDTH = 96


def on_page_markdown(markdown: str, **_keywords: object) -> str:
    """Return a page with the help of all commands in place of the directive."""
    return DIRECTIVE.sub(lambda _: "\n\n".join(commands()), markdown)


def commands() -> Iterator[str]:
    """Yield a section for each command."""
    context = click.Context(qdqtool)
    for name in qdqtool.list_commands(context):
        found = qdqtool.get_command(context, name)
        assert found is not None
        flag = "--help-all" if any(each.name == "help_all" for each in found.params) else "--help"
        shown = CliRunner().invoke(qdqtool, [name, flag], prog_name="qdqtool", terminal_width=WIDTH)
        yield f"### {name}\n\n```text\n{shown.output.rstrip()}\n```"
