"""Who is told what a conversion is doing."""

from collections.abc import Callable
from dataclasses import dataclass

from qdqtool.jobs.conversion.report import StepName
from qdqtool.samples.feeds import Progress


def _ignore(*_: object) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertProgress:
    """Functions that are told what a conversion is doing.

    Attributes:
        step: Told of each step when it begins, by its name.
        samples: Told of every sample, and how many there are.
        layers: Told of every run while layers are measured, and how many there are at most.
    """

    step: Callable[[StepName], None] = _ignore
    samples: Progress = _ignore
    layers: Progress = _ignore
