"""The command line: the options of each command, and its printed output.

Each module of ``commands`` is a command. It reads options, calls one function of :mod:`qdqtool.jobs`, prints the report
with :mod:`qdqtool.reports` and chooses the exit code. This package finds commands in that folder by their file names,
and loads a command only when it is needed. Nothing heavy is imported at module level, so ``--help`` is instant.

In: command-line arguments and recipe files. Out: text or JSON on stdout, messages on stderr, an exit code.

Read next: ``commands/inspect.py``, the shortest command; ``sections.py`` for help; ``supervisor.py`` for signals.
"""

from typing import Any

import click

from qdqtool.cli import commands as _package
from qdqtool.cli.options import filled_hint
from qdqtool.cli.sections import HELP_NAMES
from qdqtool.errors import QdqError
from qdqtool.registry import load_unit, suggestion, unit_names

_WORK = (
    *("convert", "quantize", "sensitivity", "validate", "check", "build", "inspect", "diff", "report"),
    *("calibrate", "insert", "normalize", "cast", "strip", "explain"),
)
"""The commands that most users need, in the order of use."""


class LazyGroup(click.Group):
    """A group whose commands are the modules of this package; ``_`` in a file name is ``-`` on the command line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names, sorted."""
        del ctx
        return [name.replace("_", "-") for name in unit_names(_package)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command with that name, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found = load_unit(_package, cmd_name.replace("-", "_")).command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the most used commands in the order of use, then the others."""
        more = [name for name in self.list_commands(ctx) if name not in _WORK]
        for heading, names in (("Commands", _WORK), ("More", more)):
            found = [(name, self.get_command(ctx, name)) for name in names]
            with formatter.section(heading):
                formatter.write_dl(
                    [(name, each.get_short_help_str(limit=200)) for name, each in found if each is not None]
                )

    def invoke(self, ctx: click.Context) -> Any:
        """Invoke a command as click does; the hint of an error names the model of the command."""
        try:
            return super().invoke(ctx)
        except QdqError as error:
            error.hint = filled_hint(ctx, error.hint)
            raise

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click does, with a suggestion for an unknown command."""
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
    """Quantize ONNX models, validate and check their Q/DQ nodes, and build TensorRT engines.

    Exit codes: 0 ok; 1 findings, a missed gate or a refusing builder; 2 wrong usage, plan or data; 3 unreadable model;
    4 something this machine lacks; 5 a bug in qdqtool; 130 interrupted; 141 the reader of a pipe closed it.
    """
