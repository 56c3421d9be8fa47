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
}
FUNCTIONS = {
    "build": "build_engine",
    "calibrate": "calibrate",
    "cast": "cast_model",
    "check": "check_model",
    "convert": "convert",
    "insert": "insert_plan",
    "quantize": "quantize_model",
    "run": "run_engine",
    "sensitivity": "measure_sensitivity",
}
COMMANDS = (*_COMMANDS, "convert")
"""The commands whose functions have keywords."""
SHARED = {
    "Data": ("calibrate", "cast", "check", "convert", "quantize", "run", "sensitivity"),
    "Calibration": ("calibrate", "convert", "quantize", "sensitivity"),
    "Accuracy": ("convert", "quantize"),
    "Engine": ("build", "convert"),
    "Gate": ("check", "convert"),
}
"""Groups of commands; one class has the keywords that all commands of a group share. The largest groups come first."""
ARGUMENTS = {"build": ("backend",)}
"""Options that are arguments of the function, not keywords."""
WITH_REPORTS = ("build", "check", "convert", "quantize", "sensitivity")
"""The commands whose functions have the keyword ``reports``."""


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
