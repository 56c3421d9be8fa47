"""Options that several commands share, so that they look and behave the same in each command."""

import contextlib
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def model_argument(name: str = "model", *, required: bool = True) -> Callable[[Decorated], Decorated]:
    """Return the positional argument MODEL: a path that the loader checks, with its own messages."""
    return click.argument(name, type=click.Path(path_type=Path), callback=remember_models, required=required)


def remember_models(context: click.Context, _parameter: click.Parameter, value: Any) -> Any:
    """Store the model paths as the user typed them; the commands in hints use them."""
    names = value if isinstance(value, tuple) else (value,)
    context.meta.setdefault(_MODELS_KEY, []).extend(str(name) for name in names if name is not None)
    return value


_MODELS_KEY = "qdqtool.models"


def given_models(context: click.Context) -> list[str]:
    """Return the model paths as the user typed them."""
    found: list[str] = context.meta.get(_MODELS_KEY, [])
    return found


def filled_hint(context: click.Context, hint: str | None) -> str | None:
    """Return a hint with ``MODEL`` replaced by the models of the command, which are unknown where hints are written."""
    models = " ".join(map(shlex.quote, given_models(context)))
    return re.sub(r"\bMODEL\b(\.\.\.)?", lambda _: models, hint) if hint and models else hint


class OutputPath(click.Path):
    """A file to write; ``-`` is stdout. If stdout is an output, messages are printed to stderr."""

    def __init__(self, *, is_binary: bool = False) -> None:
        super().__init__(path_type=Path)
        self._is_binary = is_binary

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """Return the path."""
        from qdqtool.models.graph.io.output import STDOUT, is_stdout, reserve_stdout, shows_stdout

        path = STDOUT if str(value) == "-" else Path(value)
        # A line that a shell completes is parsed too; stdout then gets the completions.
        if is_stdout(path) and not (ctx is not None and ctx.resilient_parsing):
            if self._is_binary and shows_stdout():
                self.fail("stdout is a terminal, and the output is binary: redirect stdout, or name a file", param, ctx)
            reserve_stdout()
        return path


def output_option(what: str, *, required: bool = True, is_binary: bool = True) -> Callable[[Decorated], Decorated]:
    """Return the option ``-o/--output FILE``."""
    text = f"{what} '-' is stdout; the report then goes to stderr."
    return click.option(
        "-o", "--output", type=OutputPath(is_binary=is_binary), metavar="FILE", required=required, help=text
    )


def output_format_option(*formats: str) -> Callable[[Decorated], Decorated]:
    """Return the option ``--output-format``: text by default; with JSON, stdout gets nothing else."""
    choices = formats or ("text", "json")
    return click.option(
        "--output-format",
        type=click.Choice(choices),
        default="text",
        show_default=True,
        metavar="FORMAT",
        help=f"How to print the report: {', '.join(choices[:-1])} or {choices[-1]}; json is the only output on stdout.",
    )


def verbosity_options(function: Decorated) -> Decorated:
    """Add ``-q/--quiet`` and ``-v/--verbose``, which :func:`emit` reads; they are no arguments of the command."""
    # Options are added from the last to the first.
    for flags, text in reversed(_VERBOSITY):
        function = click.option(*flags, is_flag=True, expose_value=False, callback=_remember, help=text)(function)
    return function


def report_options(function: Decorated) -> Decorated:
    """Add the options for the format and the length of the printed report."""
    return output_format_option()(verbosity_options(function))


_VERBOSITY = (
    (("-q", "--quiet"), "Print no report unless something failed."),
    (("-v", "--verbose"), "Print every list in full."),
)


def _remember(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and _verbosity(context) not in {None, parameter.name}:
        raise click.UsageError("--quiet and --verbose exclude each other.")
    if value:
        context.meta[_VERBOSITY_KEY] = parameter.name


_VERBOSITY_KEY = "qdqtool.verbosity"


def _verbosity(context: click.Context | None = None) -> str | None:
    """Return ``quiet``, ``verbose``, or None if neither is given."""
    found = context or click.get_current_context(silent=True)
    return found.meta.get(_VERBOSITY_KEY) if found is not None else None


def is_quiet() -> bool:
    """Return whether the running command was given ``--quiet``."""
    return _verbosity() == "quiet"


def emit(report: Any, output_format: str, kind: str, *, passed: bool = True, **details: bool) -> None:
    """Print a report as JSON, or as text by :func:`qdqtool.reports.text.renderer`; ``--quiet`` suppresses the text.

    The files that ``--report`` names are written first.

    Args:
        report: A report dataclass.
        output_format: ``text``, ``json`` or, where the command has it, a format for other tools.
        kind: One of :data:`qdqtool.reports.text.RENDERERS`.
        passed: Whether the command ends with exit code 0; failures are always printed.
        details: Further arguments of the renderer.
    """
    _write_asked(report, kind)
    if output_format == "json":
        from qdqtool.reports import json

        click.echo(json.render(report))
        return
    if output_format != "text":
        from qdqtool.reports.files import append_summary, rendered

        click.echo(rendered(report, kind, output_format).decode(), nl=False)
        if output_format == "github":
            append_summary(report)
        return
    if passed and is_quiet():
        return
    from qdqtool.reports.terminal import make_console
    from qdqtool.reports.text import renderer

    renderer(kind)(report, make_console(verbose=_verbosity() == "verbose"), **details)


REPORTS_KEY = "qdqtool.reports"
"""The key of click's context under which the formats and paths of ``--report`` are stored."""


def _write_asked(report: Any, kind: str) -> None:
    context = click.get_current_context(silent=True)
    pairs = context.meta.get(REPORTS_KEY) if context is not None else None
    if pairs:
        from qdqtool.reports.files import write_report_files

        write_report_files(report, kind, pairs)


@contextlib.contextmanager
def step_progress() -> Iterator[tuple[Callable[[str], None], Callable[[int, int], None], Callable[[int, int], None]]]:
    """Yield three functions that show progress: of steps, of samples, and of settings of layers.

    The first takes the name of a step that begins. The others take the number of finished items and the total, and show
    them on stderr if it is a terminal. The bar for layers appears with the first setting.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=is_quiet() or not console.is_interactive) as bar:
        samples, layers = bar.add_task("samples", total=None), bar.add_task("layers", total=None, visible=False)

        def begin(step: str) -> None:
            bar.reset(samples, description=f"{step}: samples", total=None)
            bar.reset(layers, description=f"{step}: layers", total=None, visible=False)

        yield (
            begin,
            lambda done, total: bar.update(samples, completed=done, total=total),
            lambda done, total: bar.update(layers, completed=done, total=total, visible=True),
        )
