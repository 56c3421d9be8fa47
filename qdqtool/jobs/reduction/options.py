"""How a model is reduced."""

from dataclasses import dataclass, field
from pathlib import Path

from qdqtool.jobs.reduction.commands import TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceOptions:
    """How a model is reduced.

    Attributes:
        options: Options for ``build`` or ``check``, or further words of a command.
        match: Regular expression: a run fails where it prints that, however it ends; None where exit code and message
            decide.
        timeout: Seconds after which a run is stopped, which is a failure of its own.
        max_runs: Number of runs after which the smallest model so far is the result.
        input_shapes: Shapes of inputs, by name, that are written into the model first.
        report: The Markdown file for a bug report; None for the name of the model with ``.md``.
    """

    options: tuple[str, ...] = ()
    match: str | None = None
    timeout: float = TIMEOUT
    max_runs: int = 1000
    input_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    report: Path | None = None
