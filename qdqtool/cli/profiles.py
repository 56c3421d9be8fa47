"""Several optimization profiles on the command line: ``--profile N`` stands in front of the shapes of profile N."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from qdqtool.cli.options import Decorated, shapes_option
from qdqtool.cli.sections import SectionedCommand

if TYPE_CHECKING:
    from qdqtool.engines.build.options import ProfileOptions
    from qdqtool.engines.build.profiles import ShapeOptions
    from qdqtool.engines.tensorrt.shape_values import ShapeValues
    from qdqtool.samples.input_shapes import Shapes

KINDS = ("min", "opt", "max")
SHAPES = tuple(f"{kind}_shapes" for kind in KINDS)
VALUES = tuple(f"{kind}_shape_values" for kind in KINDS)
_MEANS = {
    "min_shapes": "Smallest shapes of dynamic inputs",
    "opt_shapes": "Shapes to optimize for; alone they are the only ones",
    "max_shapes": "Largest shapes of dynamic inputs",
    "min_shape_values": "Smallest values of inputs that decide shapes",
    "opt_shape_values": "Values to optimize for; alone they are the only ones",
    "max_shape_values": "Largest values of inputs that decide shapes",
}

Words = Mapping[str, Sequence[str]]
"""What was given for each of the six options, by the name of its parameter."""


@dataclass(frozen=True, slots=True)
class GivenProfiles:
    """The shapes of all profiles as the user gave them: the first, and what stands behind each ``--profile``."""

    first: Words
    further: tuple[Words, ...]


class ProfilesCommand(SectionedCommand):
    """A command with ``--profile``: which shapes belong to which profile is told by the order of the options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; the shapes of each profile are kept for :func:`given_profiles`."""
        # Click hands the values of an option over together; only its parser knows in which order options stood.
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[_KEY] = _by_profile(values, order)
        rest = super().parse_args(ctx, args)
        first = ctx.meta[_KEY]["0"]
        for name in (*SHAPES, *VALUES):
            # A default map has shapes of the first profile; an option on the command line replaces them.
            if ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
                first[name] = list(ctx.params[name])
        return rest


def profile_options() -> Callable[[Decorated], Decorated]:
    """``--profile`` and the six options that it divides into profiles."""

    def options(function: Decorated) -> Decorated:
        for name in reversed((*SHAPES, *VALUES)):
            metavar = "NAME:2x-1" if name in VALUES else "NAME:1x3x320x320"
            function = shapes_option(f"--{name.replace('_', '-')}", _MEANS[name], metavar)(function)
        text = "The shapes behind it are those of profile N, of several; those in front of it are of profile 0."
        return click.option("--profile", multiple=True, metavar="N", expose_value=False, help=text)(function)

    return options


def given_profiles(ctx: click.Context) -> GivenProfiles:
    """Return the shapes of each profile."""
    found: dict[str, dict[str, list[str]]] = ctx.meta[_KEY]
    _check_numbers(list(found))
    _check_shapes(found)
    ordered = [found[str(number)] for number in range(len(found))]
    return GivenProfiles(ordered[0], tuple(ordered[1:]))


def shapes_of(words: Words, fixed: "Shapes") -> "ShapeOptions":
    """Parse the shapes of one profile."""
    from qdqtool.engines.build.profiles import ShapeOptions
    from qdqtool.samples.input_shapes import parse_shapes

    low, best, high = (parse_shapes(words.get(name, ()), f"--{name.replace('_', '-')}") for name in SHAPES)
    return ShapeOptions(min=low, opt=best, max=high, fixed=fixed)


def values_of(words: Words) -> "ShapeValues":
    """Parse the shape values of one profile."""
    from qdqtool.engines.tensorrt.shape_values import ShapeValues
    from qdqtool.samples.input_shapes import parse_values

    low, best, high = (parse_values(words.get(name, ()), f"--{name.replace('_', '-')}") for name in VALUES)
    return ShapeValues(min=low, opt=best, max=high)


def further_profiles(given: GivenProfiles) -> "tuple[ProfileOptions, ...]":
    """Parse the profiles after the first."""
    from qdqtool.engines.build.options import ProfileOptions

    return tuple(ProfileOptions(shapes=shapes_of(words, {}), shape_values=values_of(words)) for words in given.further)


_KEY = "qdqtool.profiles"


def _by_profile(values: Mapping[str, Any], order: Sequence[click.Parameter]) -> dict[str, dict[str, list[str]]]:
    """Return the words of each option by the number of the profile, as it was written."""
    waiting = {parameter.name: iter(values[parameter.name]) for parameter in order if _divides(parameter)}
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


def _divides(parameter: click.Parameter) -> bool:
    return parameter.name in {"profile", *SHAPES, *VALUES}


def _check_numbers(numbers: Sequence[str]) -> None:
    from qdqtool.errors import UsageError

    for number in numbers:
        if number.endswith(_AGAIN):
            raise UsageError(f"--profile {number.removesuffix(_AGAIN)} is given twice")
        if not (number.isdecimal() and number.isascii()):
            raise UsageError(f"--profile '{number}' is no number", hint="profiles are numbered from 0 on")
    missing = next((str(number) for number in range(len(numbers)) if str(number) not in numbers), None)
    if missing is not None:
        raise UsageError(f"--profile {missing} is missing: profiles are numbered from 0 on, without a gap")


def _check_shapes(found: Mapping[str, Words]) -> None:
    from qdqtool.errors import UsageError

    empty = next((number for number in sorted(found, key=int) if not found[number]), None) if len(found) > 1 else None
    if empty is not None:
        raise UsageError(
            f"--profile {empty} has no shapes",
            hint=f"give them behind it, for example: `--profile {empty} --opt-shapes NAME:1x3x320x320`",
        )
