"""What was measured of one course, and the power of the size that time and memory grow with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LINEAR = 1.15
"""The largest exponent that counts as linear: that of n log n between 1,000 and 50,000 is 1.12."""

LEAST = {"cpu": 0.1, "own": 0.1, "peak": 8e6}
"""Seconds and bytes below which a figure is of starting a command, and not of its work."""


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one course.

    Attributes:
        axis: What grows.
        command: What ran.
        sizes: The sizes that were run.
        cpu: Processor seconds of each run, by size.
        wall: Seconds of each run, by size.
        peak: Bytes of memory of each run beyond those before, by size.
        opening: Processor seconds of each run in which ONNX Runtime opens sessions, by size; a part of ``cpu``.
        failed: Why there are no figures of further sizes; empty: there are.
    """

    axis: str
    command: str
    sizes: Sequence[int]
    cpu: Sequence[Sequence[float]]
    wall: Sequence[Sequence[float]]
    peak: Sequence[Sequence[float]]
    opening: Sequence[Sequence[float]] = ()
    failed: str = ""

    @property
    def name(self) -> str:
        """Unique among the rows."""
        return f"{self.command}: {self.axis}"

    def exponent(self, figure: str) -> float | None:
        """The exponent that ``cpu``, ``own`` or ``peak`` grows with; None where too few sizes take enough of it."""
        best = self.own if figure == "own" else [min(runs) for runs in getattr(self, figure)]
        return fitted(self.sizes, best, LEAST[figure])

    @property
    def own(self) -> list[float]:
        """Processor seconds outside of ONNX Runtime's opening of sessions, by size."""
        opening = self.opening or [[0.0] * len(runs) for runs in self.cpu]
        return [
            min(whole - part for whole, part in zip(*runs, strict=True))
            for runs in zip(self.cpu, opening, strict=True)
        ]  # fmt: skip

    @property
    def defects(self) -> list[str]:
        """Names of the figures that grow faster than the size; seconds in which sessions are opened do not count."""
        found = {"own": "time", "peak": "memory"}
        return [word for figure, word in found.items() if (self.exponent(figure) or 0.0) > LINEAR]

    @property
    def verdict(self) -> str:
        """What grows faster than the size, or ``linear``; nothing is said where too few sizes take enough time."""
        if self.failed:
            return f"FAILED: {self.failed}"
        unknown = self.exponent("own") is None
        return ", ".join(self.defects) or ("too little to tell" if unknown else "linear")


def fitted(sizes: Sequence[int], figures: Sequence[float], least: float) -> float | None:
    """The slope of a line through the logarithms of sizes and of figures.

    Args:
        sizes: What grows.
        figures: What was measured.
        least: Smaller figures are left out.

    Returns:
        None where fewer than two figures are left.
    """
    left = [(math.log(size), math.log(figure)) for size, figure in zip(sizes, figures, strict=True) if figure >= least]
    if len(left) < 2:
        return None
    x, y = np.array(left).T
    return float(np.polyfit(x, y, 1)[0])
