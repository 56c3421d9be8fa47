"""Options of the command line, made from their declarations."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from qdqtool.cli import completion
from qdqtool.cli.options import Decorated, OutputPath
from qdqtool.options import COMMAND_LINE, Kind, Option, Values, declared, read


class DeclaredOption(click.Option):
    """An option of the command line, made from its declaration."""

    def __init__(self, _names: Sequence[str] = (), *, declaration: Option) -> None:
        kind = declaration.kind
        super().__init__(
            [*_flags(declaration), declaration.name],
            type=_type(kind),
            # With False, click would read a value that begins with a dash, such as -1, as another option.
            is_flag=True if kind.form in {"flag", "switch"} else None,
            multiple=kind.is_repeated,
            metavar=kind.metavar,
            help=declaration.text if isinstance(declaration.text, str) else None,
            shell_complete=_complete(kind),
            **_default(declaration),
        )
        self.declaration = declaration

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the two columns of the option in ``--help``; texts that list plug-in units are made here."""
        if not isinstance(self.declaration.text, str):
            self.help = self.declaration.text()
        return super().get_help_record(ctx)


def of_command_line(kind: type) -> Iterator[Option]:
    """Yield the declared options of a class that the command line has."""
    return (each for each in declared(kind) if each.only != "python")


def options_of(kind: type) -> Callable[[Decorated], Decorated]:
    """Return a decorator that gives a command the declared options of a class."""

    def decorate(function: Decorated) -> Decorated:
        for each in reversed([*of_command_line(kind)]):
            function = click.option(cls=DeclaredOption, declaration=each)(function)
        return function

    return decorate


def _flags(declaration: Option) -> tuple[str, ...]:
    flags = declaration.flags or (declaration.flag,)
    return tuple(f"{flag}/--no-{flag[2:]}" for flag in flags) if declaration.kind.form == "switch" else flags


def _default(declaration: Option) -> dict[str, Any]:
    """Return click's arguments for the default; empty if an omitted option shall be None."""
    kind, value = declaration.kind, declaration.default
    if kind.form == "switch" and value is None:
        return {"default": None}
    if value is None or kind.form == "flag" or kind.is_repeated:
        return {}
    return {"default": kind.word(value), "show_default": True}


_TYPES: dict[str, Any] = {
    "integer": int,
    "number": float,
    "file": click.Path(path_type=Path),
    "operators": click.Path(path_type=Path),
    "output": OutputPath(),
    "binary": OutputPath(is_binary=True),
}
"""The click type of each form; other forms are text, or get a type of their own for each option."""


def _type(kind: Kind) -> Any:
    if kind.form == "choice":
        return click.Choice(list(kind.words))
    if kind.form == "integer" and kind.minimum is not None:
        return click.IntRange(min=kind.minimum)
    if kind.form == "number" and kind.minimum is not None:
        return click.FloatRange(min=kind.minimum, min_open=True)
    return _TYPES.get(kind.form)


def _complete(kind: Kind) -> completion.Complete | None:
    if kind.offers is None:
        return None
    find = completion.units(kind.offers) if "." in kind.offers else getattr(completion, kind.offers)
    return completion.offer(find, takes_commas=kind.takes_commas)


def values_of(kind: type, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options that are given or have a default; custom operators take effect instead.

    Args:
        kind: The class of declarations.
        words: The arguments of the command; arguments of other options are ignored.

    Raises:
        UsageError: An argument cannot be read.
    """
    return with_operators(read(of_command_line(kind), words, COMMAND_LINE))


def with_operators(values: Values) -> Values:
    """Return values without the options for custom operators, which sessions get until the command ends.

    Raises:
        UsageError: A library cannot be loaded, or a file has no stand-in.
    """
    libraries, stand_in = values.pop("ort_custom_ops", ()), values.pop("stand_in", None)
    if libraries or stand_in is not None:
        from qdqtool.models.running.custom_operators import named_operators

        click.get_current_context().with_resource(named_operators(libraries, stand_in))
    return values
