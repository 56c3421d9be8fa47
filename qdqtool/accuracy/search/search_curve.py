"""The states of a search with all that is known of each, as data: a curve of accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from qdqtool.accuracy.layers.output_noise import WORST_DB
from qdqtool.accuracy.layers.search import FloatSearch
from qdqtool.accuracy.layers.step import Step
from qdqtool.accuracy.layers.units import Unit

Raised = tuple[tuple[Unit, ...], tuple[Unit, ...]]
"""The units in float and those in the fallback format: what tells states of one search apart."""

ALL_QUANTIZED: Raised = ((), ())


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveState:
    """One state of a search. A figure in dB is the SQNR of the worst output.

    Attributes:
        layers_in_float: How many layers are in float.
        layers_in_fallback: How many have the fallback format.
        quantized_share: The share of the cost that is quantized, 0 to 1.
        worst_sqnr_db: In dB, on the samples of the search, which chose the layers; None where no output has noise.
        measured_sqnr_db: In dB, of a model with these layers, on the samples that measure; None where no output has
            noise, and where no such model was made.
        metric_loss: Loss of the task metric on the samples that chose; None where it was not measured.
        measured_metric_loss: The same of a model with these layers, on the samples that measure; None likewise.
        finite: Whether neither measurement met NaN or infinities that the float model has not; then there is no figure.
        chosen: Whether it is the state of the written model.
    """

    layers_in_float: int
    layers_in_fallback: int
    quantized_share: float
    worst_sqnr_db: float | None
    measured_sqnr_db: float | None = None
    metric_loss: float | None = None
    measured_metric_loss: float | None = None
    finite: bool = True
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCurve:
    """The states of a search that no other one equals or beats in both respects, and that of the written model.

    Attributes:
        min_sqnr_db: The SQNR that every output keeps, in dB; None without such a limit.
        max_metric_loss: The limit of the loss of the task metric; None without one.
        metric: The task metric; empty without a limit of it.
        loss_unit: Unit of its losses; may be empty.
        samples: Number of samples that the search ran.
        states: The states, the cheapest first.
    """

    min_sqnr_db: float | None
    max_metric_loss: float | None
    metric: str
    loss_unit: str
    samples: int
    states: tuple[CurveState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What else is known of a state.

    Attributes:
        measured_db: On the samples that measure: infinite without noise, minus infinity with NaN; None where no model
            was made.
        metric_loss: Loss on the samples that chose.
        measured_loss: Loss on the samples that measure.
    """

    measured_db: float | None = None
    metric_loss: float | None = None
    measured_loss: float | None = None


def curve_states(search: FloatSearch, chosen: Step, known: Mapping[Raised, Known]) -> tuple[CurveState, ...]:
    """Return the states of a search, the cheapest first: its frontier, every layer quantized, and the chosen one.

    Args:
        search: The search.
        chosen: The state of the written model.
        known: What else is known of states.
    """
    # A search begins with every layer quantized.
    states = {step.raised: step for step in (search.steps[0], chosen, *search.frontier())}
    return tuple(
        _state(step, known.get(step.raised, Known()), is_chosen=step.raised == chosen.raised)
        for step in sorted(states.values(), key=lambda step: (step.share, step.worst_db))
    )


def _state(step: Step, known: Known, *, is_chosen: bool) -> CurveState:
    return CurveState(
        layers_in_float=len(step.units),
        layers_in_fallback=len(step.fallback),
        quantized_share=round(1 - step.share, 4),
        worst_sqnr_db=_figure(step.worst_db),
        measured_sqnr_db=None if known.measured_db is None else _figure(known.measured_db),
        metric_loss=known.metric_loss,
        measured_metric_loss=known.measured_loss,
        finite=step.worst_db > -WORST_DB and known.measured_db != -math.inf,
        chosen=is_chosen,
    )


def _figure(decibels: float) -> float | None:
    return round(decibels, 2) if -WORST_DB < decibels < math.inf else None
