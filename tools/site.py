"""Hook of MkDocs: a page shows the help of every command, and another the options of other tools."""

import re
from collections.abc import Iterator

import click
from click.testing import CliRunner

from qdqtool.cli import command as qdqtool
from qdqtool.jobs.migration.lines import options_of
from qdqtool.jobs.migration.translation import counterpart, fate_of

DIRECTIVE = re.compile(r"^::: (commands|options trtexec|options polygraphy|options modelopt)$", re.MULTILINE)
WIDTH = 96
TOOLS = {"trtexec": "trtexec and tensorrt_rtx", "polygraphy": "polygraphy convert", "modelopt": "Model Optimizer"}
FATES = {"default": "nothing to do", "none": "no counterpart"}


def on_page_markdown(markdown: str, **_keywords: object) -> str:
    """Return a page with the help of all commands, or the options of another tool, in place of the directive."""
    return DIRECTIVE.sub(lambda found: in_place_of(found[1]), markdown)


def in_place_of(directive: str) -> str:
    """Return what a directive stands for."""
    tool = directive.partition(" ")[2]
    return "\n".join(options(tool)) if tool else "\n\n".join(commands())


def options(tool: str) -> Iterator[str]:
    """Yield the lines of the table of a tool's options."""
    yield from (
        f"### Options of {TOOLS[tool]}",
        "",
        "| option | in qdqtool | what differs, or why not |",
        "|---|---|---|",
    )
    for option in options_of(tool):
        ours = counterpart(option)
        place = f"`{ours}`" if ours else FATES.get(fate_of("", option, ours), "")
        place += ", **lost**" if option.lost else ""
        gone = f"removed in TensorRT {option.gone}" if option.gone else ""
        reason = "; ".join(part for part in (option.reason, gone) if part)
        yield f"| {', '.join(f'`{name}`' for name in option.names)} | {place} | {reason} |"


def commands() -> Iterator[str]:
    """Yield a section for each command."""
    context = click.Context(qdqtool)
    for name in qdqtool.list_commands(context):
        found = qdqtool.get_command(context, name)
        assert found is not None
        flag = "--help-all" if any(each.name == "help_all" for each in found.params) else "--help"
        shown = CliRunner().invoke(qdqtool, [name, flag], prog_name="qdqtool", terminal_width=WIDTH)
        yield f"### {name}\n\n```text\n{shown.output.rstrip()}\n```"
