"""The command line: which options a command has, and what it prints.

Each module of ``commands`` is a command. It reads options, calls one function of :mod:`qdqtool.jobs`, prints the report
with :mod:`qdqtool.reports` and chooses the exit code. This package finds commands by walking that folder and loads a
command when it is asked for. Nothing heavy is imported at module level, so ``--help`` is instant.

In: words, and recipe files. Out: text or JSON on stdout, messages on stderr, an exit code.

Read next: ``commands/inspect.py``, the shortest command; ``sections.py`` for help; ``supervisor.py`` for signals.
"""

from typing import Any

import click

from qdqtool.cli import commands as _package
from qdqtool.cli.options import filled_hint
from qdqtool.cli.sections import HELP_NAMES
from qdqtool.errors import QdqError
from qdqtool.registry import load_unit, suggestion, unit_names

_WORK = {
    "Commands": (
        *("convert", "quantize", "sensitivity", "validate", "check", "build", "inspect", "diff", "report"),
        *("calibrate", "insert", "normalize", "strip", "explain"),
    ),
}
"""The commands in the order of the work; those that are not named stand below as more."""


class LazyGroup(click.Group):
    """A group whose commands are the modules of this package; ``_`` in a file name is ``-`` on the command line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The command names, sorted."""
        del ctx
        return [name.replace("_", "-") for name in unit_names(_package)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found = load_unit(_package, cmd_name.replace("-", "_")).command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, those for the same work together."""
        rest = dict.fromkeys(self.list_commands(ctx))
        for heading, names in (*_WORK.items(), ("More", [*rest])):
            found = [(name, self.get_command(ctx, name)) for name in names if name in rest]
            rows = [(name, command.get_short_help_str(limit=200)) for name, command in found if command is not None]
            for name in names:
                rest.pop(name, None)
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does; the hint of an error then names the model of the command."""
        try:
            return super().invoke(ctx)
        except QdqError as error:
            error.hint = filled_hint(ctx, error.hint)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a did-you-mean for a command that does not exist."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            ctx.fail(f"No such command '{args[0]}'{suggestion(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={
        "help_option_names": HELP_NAMES,
        "max_content_width": 100,
        "token_normalize_func": lambda name: name.replace("_", "-"),
    },
)
@click.version_option(package_name="qdqtool", message="%(prog)s %(version)s")
def command() -> None:
    """Put ONNX models into correct Q/DQ form, prove it, and build TensorRT engines.

    Exit codes: 0 ok; 1 findings, a missed gate or a refusing builder; 2 wrong usage, plan or data; 3 unreadable model;
    4 something this machine lacks; 5 a bug in qdqtool; 130 interrupted; 141 the reader of a pipe closed it.
    """
