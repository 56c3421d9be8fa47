"""Several optimization profiles on the command line: ``--profile N`` precedes the shapes of profile N."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from click.core import ParameterSource

from qdqtool.cli.declared import values_of
from qdqtool.cli.options import Decorated
from qdqtool.cli.sections import SectionedCommand
from qdqtool.engines.options import ProfileShapes
from qdqtool.options import Values, declared

SHAPES = tuple(each.name for each in declared(ProfileShapes))

Words = Mapping[str, Sequence[str]]
"""The values of the six shape options, by parameter name."""


class ProfilesCommand(SectionedCommand):
    """A command with ``--profile``: the order of the options assigns shapes to profiles."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments as click does; the shapes of each profile are stored for :func:`profile_values`."""
        # Click returns all values of an option together; only its parser knows the order of the options.
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[_KEY] = _by_profile(values, order)
        rest = super().parse_args(ctx, args)
        first = ctx.meta[_KEY]["0"]
        for name in SHAPES:
            # A default map has shapes for the first profile; options on the command line replace them.
            if ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
                first[name] = list(ctx.params[name])
        return rest


def profile_option() -> Callable[[Decorated], Decorated]:
    """Return the option ``--profile``, which divides the values of the six shape options into profiles."""
    text = "Assign the shape options after it to optimization profile N. Shape options before it are of profile 0."
    return click.option("--profile", multiple=True, metavar="N", expose_value=False, help=text)


def profile_values(context: click.Context) -> Values:
    """Return the shapes of the first profile and, as ``profiles``, the shapes that follow each ``--profile``."""
    found: dict[str, dict[str, list[str]]] = context.meta[_KEY]
    _check_numbers(list(found))
    _check_shapes(found)
    first, *further = (values_of(ProfileShapes, found[str(number)]) for number in range(len(found)))
    return {**first, "profiles": tuple(further)}


_KEY = "qdqtool.profiles"


def _by_profile(values: Mapping[str, Any], order: Sequence[click.Parameter]) -> dict[str, dict[str, list[str]]]:
    """Return the values of each option by profile; profile numbers are kept as the user wrote them."""
    names = [parameter.name for parameter in order]
    waiting = {name: iter(values[name]) for name in ("profile", *SHAPES) if name in names}
    found: dict[str, dict[str, list[str]]] = {"0": {}}
    current = "0"
    for parameter in order:
        if parameter.name == "profile":
            current = next(waiting["profile"])
            if found.get(current):
                current += _AGAIN
            found.setdefault(current, {})
        elif parameter.name in waiting:
            found[current].setdefault(parameter.name, []).append(next(waiting[parameter.name]))
    return found


_AGAIN = " again"


def _check_numbers(numbers: Sequence[str]) -> None:
    from qdqtool.errors import UsageError

    for number in numbers:
        if number.endswith(_AGAIN):
            raise UsageError(f"--profile {number.removesuffix(_AGAIN)} is given twice")
        if not (number.isdecimal() and number.isascii()):
            raise UsageError(f"--profile '{number}' is not a number", hint="profile numbers start at 0")
    missing = next((str(number) for number in range(len(numbers)) if str(number) not in numbers), None)
    if missing is not None:
        raise UsageError(f"--profile {missing} is missing: profile numbers start at 0 and have no gap")


def _check_shapes(found: Mapping[str, Words]) -> None:
    from qdqtool.errors import UsageError

    empty = next((number for number in sorted(found, key=int) if not found[number]), None) if len(found) > 1 else None
    if empty is not None:
        raise UsageError(
            f"--profile {empty} has no shapes",
            hint=f"add shapes after it, for example: `--profile {empty} --opt-shapes NAME:1x3x320x320`",
        )
