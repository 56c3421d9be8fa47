"""What a task metric is to those who measure with it, whether it is one of ours or a function of the user."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from qdqtool.numerics.dtypes import Array
from qdqtool.samples import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """The task metric of the model.

    Attributes:
        name: The metric, or the name of the function.
        output: The output that was measured; None where a function of the user got all of them.
        unit: Unit of the values: ``%``, or empty where there is none or nobody knows it.
        loss_unit: Unit of the losses: ``percentage points``, ``%``, or empty.
        predictions: Number of predictions; of samples where a function of the user measures.
        value: Value of the model.
        baseline: Value of the baseline; None without one.
        loss: Loss of the model against the baseline; negative where the model is better.
        saved: Value of the outputs that were saved elsewhere; None without them.
        saved_loss: Loss of these outputs against the model in the reference session.
        chance: Why the model is no better than guessing, in words; None where it is better, or nobody can tell.
        baseline_chance: The same of the baseline.
    """

    name: str
    output: str | None
    unit: str
    loss_unit: str
    predictions: int
    value: float
    baseline: float | None
    loss: float | None
    saved: float | None
    saved_loss: float | None
    chance: str | None = None
    baseline_chance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How well a model did on some samples.

    Attributes:
        value: The metric, in its own unit.
        predictions: Number of predictions; of samples where a function of the user measures.
        chance: Why the value is no better than guessing, in words; None where it is better, or nobody can tell.
    """

    value: float
    predictions: int
    chance: str | None = None


class Tally(Protocol):
    """What is counted of one model."""

    def add(self, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Count one run.

        Args:
            outputs: Outputs of the model, by name; padded rows of the batch are left out of them here.
            sample: The inputs, with labels.
        """

    def score(self) -> Score:
        """Return the metric over all runs."""


class Measure(Protocol):
    """A metric of one model's outputs."""

    @property
    def name(self) -> str:
        """Its name, as reports have it."""

    @property
    def output(self) -> str | None:
        """The only output that it reads; None where it reads all of them."""

    @property
    def unit(self) -> str:
        """Unit of its value; may be empty."""

    @property
    def loss_unit(self) -> str:
        """Unit of :meth:`loss`; may be empty."""

    def tally(self, model: str) -> Tally:
        """Begin to count for a model, which messages call by this name, such as ``the baseline``."""

    def loss(self, value: float, reference: float) -> float:
        """Return the loss of ``value`` against ``reference``; negative where it is better."""

    def resolution(self, predictions: int) -> float | None:
        """Return the loss that one prediction more makes; None where a loss can be of any size."""


class RequestedMetric(Protocol):
    """A metric that was asked for, before the outputs of the model are known."""

    @property
    def needs_labels(self) -> bool:
        """Whether it cannot do without labels."""

    def measure(self, outputs: Sequence[str]) -> Measure:
        """Return the metric for a model with these outputs."""
