"""The options that are keywords of each function; ``qdqtool.api.keywords`` is generated from this table."""

from collections.abc import Iterator

from qdqtool.engines.options import BuildCommand, RunCommand
from qdqtool.jobs.conversion.union import ConvertCommand, step_options
from qdqtool.jobs.options import (
    CalibrateCommand,
    CastCommand,
    CheckCommand,
    InsertCommand,
    QuantizeCommand,
    SensitivityCommand,
    StripCommand,
)
from qdqtool.options import Option, declared

_COMMANDS = {
    "build": BuildCommand,
    "calibrate": CalibrateCommand,
    "cast": CastCommand,
    "check": CheckCommand,
    "insert": InsertCommand,
    "quantize": QuantizeCommand,
    "run": RunCommand,
    "sensitivity": SensitivityCommand,
    "strip": StripCommand,
}
ARGUMENTS = {"build": ("backend",)}
"""Options that are arguments of the function, not keywords."""


def keywords_of(command: str) -> dict[str, Option]:
    """Return the options of a command that are keywords of its function, by name."""
    left = ARGUMENTS.get(command, ())
    return {each.name: each for each in _options(command) if each.only != "command line" and each.name not in left}


def _options(command: str) -> Iterator[Option]:
    if command == "convert":
        yield from declared(ConvertCommand)
        yield from step_options().values()
    else:
        yield from declared(_COMMANDS[command])
