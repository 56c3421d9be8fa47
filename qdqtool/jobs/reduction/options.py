"""Options for reducing a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qdqtool.options import integer, number, option, output, text
from qdqtool.samples.options import SEVERAL, SHAPES

TIMEOUT: float = 1800
"""Default time limit of a run in seconds, the same as for ``build``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceOptions:
    """Options for reducing a model.

    Attributes:
        options: Options for ``build`` or ``check``, or further words of a command.
        match: Regular expression: a run that prints a match counts as failed. None if exit code and message decide.
        timeout: Time limit of a run in seconds; exceeding it is a separate kind of failure.
        max_runs: Largest number of runs; after them, the smallest model so far is the result.
        input_shapes: Shapes of inputs, by name, that are first written into the model.
        report: The Markdown file for a bug report; None for the path of the output with the suffix ``.md``.
    """

    options: tuple[str, ...] = ()
    match: str | None = option(
        None, "Count a run as failed if it prints this, whatever its exit code is.", text("REGEX"), section="What fails"
    )
    timeout: float = option(TIMEOUT, "Stop a run after this time.", number("SECONDS", 0), section="What fails")
    input_shapes: Mapping[str, tuple[int, ...]] = option(
        {},
        f"Fix the shape of an input first, and fold nodes that become constant; {SEVERAL}",
        SHAPES,
        section="What fails",
    )
    max_runs: int = option(1000, "End the search after this many runs.", integer(minimum=4), section="Search")
    report: Path | None = option(
        None,
        "The bug report to write, as Markdown.  [default: the path of --output with the suffix .md]",
        output("FILE.md"),
        section="Output",
    )
