"""Which data or ranges a quantized model comes from, as reports tell it."""

from dataclasses import dataclass
from typing import Final

from qdqtool.data import DataDescription
from qdqtool.planning.given_ranges import GivenReport
from qdqtool.planning.recipe import Recipe
from qdqtool.ranges.types import CalibrationRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationUsed:
    """Where the ranges came from; in weight-only modes, the data.

    Attributes:
        source: The data, ``random``, or the ranges file.
        method: Id of the calibrator. In weight-only modes ``gptq`` where data chose codes, else ``nearest``.
        samples: How many samples were run.
        random: Whether they were random.
        seed: Of random samples.
        forced: Whether the ranges were used only because the user insisted.
        forced_for: What they should be of and are not: ``model``, ``data`` (that which was measured with), ``samples``
            (all of them).
        given: What became of a range file of another tool; None for any other source.
    """

    source: str
    method: str
    samples: int
    random: bool
    seed: int | None
    forced: bool = False
    forced_for: tuple[str, ...] = ()
    given: GivenReport | None = None


def used_ranges(
    source: str, record: CalibrationRecord, recipe: Recipe, forced: tuple[str, ...] = ()
) -> CalibrationUsed:
    """What a report says of ranges.

    Args:
        source: Where they come from, in words.
        record: What was run.
        recipe: How they become scales.
        forced: What they are not of, though they should be: ``model``, ``data``, ``samples``.
    """
    return CalibrationUsed(
        source=source,
        method=recipe.method,
        samples=record.samples,
        random=record.random,
        seed=record.seed,
        forced=bool(forced),
        forced_for=forced,
    )


GPTQ: Final = "gptq"
"""Data chose the codes of weights."""


NEAREST: Final = "nearest"
"""Codes are those next to the weights; data had a say in preparing the model at most."""


def data_of_weights(data: DataDescription, *, rounded: int) -> CalibrationUsed:
    """What a report says of the data of a weight-only mode, which chose the codes of ``rounded`` weights."""
    return CalibrationUsed(
        source=data.source,
        method=GPTQ if rounded else NEAREST,
        samples=data.samples,
        random=data.seed is not None,
        seed=data.seed,
    )
