"""The interface of a task metric, and the named metrics, which are means over the predictions of one output."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from qdqtool.accuracy.task_metrics import metrics
from qdqtool.accuracy.task_metrics.metrics import TaskMetric
from qdqtool.errors import UsageError, plural
from qdqtool.numerics.dtypes import Array
from qdqtool.registry import suggestion
from qdqtool.samples.sample import Sample, sample_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How well a model did on some samples.

    Attributes:
        value: The metric, in its own unit.
        predictions: Number of predictions; for a function of the user, number of samples.
        chance: Why the value is no better than guessing, in words; None if it is better, or if this is unknown.
        distinct: Number of predictions on inputs that no earlier row of the data has; None if they were not counted.
        classes: Predictions and value of each class by its label, for a metric that is the recall of a class.
    """

    value: float
    predictions: int
    chance: str | None = None
    distinct: int | None = None
    classes: Mapping[int, tuple[int, float]] = field(default_factory=dict)


class Tally(Protocol):
    """The counts of a metric for one model."""

    def add(self, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Count one run.

        Args:
            outputs: Outputs of the model, by name, already without the padded rows of the batch.
            sample: The inputs, with labels.
        """

    def score(self) -> Score:
        """Return the metric over all runs."""


class Measure(Protocol):
    """A metric of one model's outputs."""

    @property
    def name(self) -> str:
        """The name of the metric in reports."""

    @property
    def output(self) -> str | None:
        """The only output that the metric reads; None if it reads all outputs."""

    @property
    def unit(self) -> str:
        """Unit of its value; may be empty."""

    @property
    def loss_unit(self) -> str:
        """Unit of :meth:`loss`; may be empty."""

    def tally(self, model: str) -> Tally:
        """Begin to count for a model; ``model`` is its name in messages, such as ``the baseline``."""

    def loss(self, value: float, reference: float) -> float:
        """Return the loss of ``value`` against ``reference``; negative if ``value`` is better."""

    def resolution(self, predictions: int) -> float | None:
        """Return the loss that one prediction makes, or None if a loss can have any size."""


def coarse(limit: float, measure: Measure | TaskMetric, predictions: int, where: str = "") -> str:
    """Return why predictions cannot show a loss as small as a limit; empty if they can.

    Args:
        limit: The largest loss of the metric, in its own unit.
        measure: The metric.
        predictions: Number of predictions; copies do not count.
        where: The name of the samples in the message, after a space.
    """
    one = measure.resolution(predictions)
    if one is None or one <= limit:
        return ""
    found = f"one of the {plural(predictions, 'prediction')}{where} is {one:.3g} {measure.loss_unit}"
    return f"{found}, so that they cannot show such a loss"


class RequestedMetric(Protocol):
    """A requested metric, before the outputs of the model are known."""

    @property
    def needs_labels(self) -> bool:
        """Whether it needs labels."""

    def measure(self, outputs: Sequence[str]) -> Measure:
        """Return the metric for a model with these outputs."""


@dataclass(frozen=True, slots=True)
class NamedMeasure:
    """One of the named metrics, with its requested options.

    Attributes:
        name: Public id of the metric.
        metric: The metric.
        output: The output that holds its scores; in a request, empty for the only output of the model.
        needs_labels: True.
    """

    name: str
    metric: TaskMetric
    output: str = ""
    needs_labels: bool = True

    @classmethod
    def of(cls, request: str) -> "NamedMeasure":
        """Read ``NAME`` or ``NAME:OUTPUT``."""
        name, _, output = request.partition(":")
        return cls(name, metrics.get(name), output)

    def measure(self, outputs: Sequence[str]) -> "NamedMeasure":
        """Return the metric for a model with these outputs.

        Raises:
            UsageError: The output is unknown, or it is not named and there are several.
        """
        if not self.output and len(outputs) != 1:
            raise UsageError(
                f"--metric {self.name}: the model has {len(outputs)} outputs: {', '.join(outputs)}",
                hint=f"name the one with the scores, for example: `--metric {shlex.quote(f'{self.name}:{outputs[0]}')}`"
                if outputs
                else None,
            )
        if self.output and self.output not in outputs:
            raise UsageError(
                f"--metric {self.name}:{self.output}: '{self.output}' is no output; the outputs are "
                f"{', '.join(outputs)}{suggestion(self.output, outputs)}"
            )
        return replace(self, output=self.output or outputs[0])

    @property
    def unit(self) -> str:
        """Unit of its value."""
        return self.metric.unit

    @property
    def loss_unit(self) -> str:
        """Unit of its loss."""
        return self.metric.loss_unit

    def tally(self, model: str) -> "NamedTally":
        """Begin to count for a model."""
        del model
        return NamedTally(self)

    def loss(self, value: float, reference: float) -> float:
        """Return the loss of ``value`` against ``reference``."""
        return self.metric.loss(value, reference)

    def resolution(self, predictions: int) -> float | None:
        """Return the loss that one prediction makes, or None if a loss can have any size."""
        return self.metric.resolution(predictions)


@dataclass(slots=True)
class NamedTally:
    """The counts of a named metric for one model.

    Attributes:
        measure: The metric.
        total: Sum over predictions of the quantity that the metric averages.
        count: Number of predictions.
        distinct: Number of predictions on inputs that no earlier row had.
        classes: Smallest number of classes in a run; 0 before the first run.
        recall: Number of predictions of each class, and the sum over them.
    """

    measure: NamedMeasure
    total: float = 0.0
    count: int = 0
    distinct: int = 0
    classes: int = 0
    recall: dict[int, tuple[int, float]] = field(default_factory=dict)
    _seen: set[bytes] = field(default_factory=set)

    def add(self, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Count one run.

        Args:
            outputs: Outputs of the model; the output with the scores has classes along its last axis.
            sample: The inputs, with labels.
        """
        rows, labels = self._rows(sample.without_filler(outputs[self.measure.output]), sample)
        self.total += self.measure.metric.total(rows, labels)
        self.count += labels.size
        for label in np.unique(labels).tolist() if self.measure.metric.is_recall else ():
            count, total = self.recall.get(label, (0, 0.0))
            own = labels == label
            total += self.measure.metric.total(rows[own], labels[own])
            self.recall[label] = count + int(np.count_nonzero(own)), total
        new = {sample_digest(row) for row in sample.rows()} - self._seen
        self._seen |= new
        self.distinct += len(new) * labels.size // max(1, sample.batch - sample.filler)
        self.classes = min(self.classes or rows.shape[-1], rows.shape[-1])

    def score(self) -> Score:
        """Return the metric over all runs; NaN if there was none."""
        metric = self.measure.metric
        value = metric.value(self.total / self.count if self.count else math.nan)
        chance = metric.chance(value, self.distinct, self.classes) if self.count else None
        classes = {label: (count, metric.value(total / count)) for label, (count, total) in self.recall.items()}
        return Score(value=value, predictions=self.count, chance=chance, distinct=self.distinct, classes=classes)

    def _rows(self, scores: Array, sample: Sample) -> tuple[Array, Array]:
        assert sample.labels is not None
        labels, measure = sample.labels, self.measure
        if labels.dtype.kind not in "iu":
            raise UsageError(f"--metric {measure.name}: the labels are {labels.dtype}; they must be integers")
        # Kind V holds the float types of ml_dtypes, such as bfloat16.
        if not scores.ndim or scores.dtype.kind not in "fV":
            raise UsageError(
                f"--metric {measure.name}: output '{measure.output}' is {scores.dtype} {list(scores.shape)}; "
                "it must hold float scores, with the classes along its last axis"
            )
        if _extents(scores.shape[:-1]) != _extents(labels.shape):
            raise UsageError(
                f"--metric {measure.name}: output '{measure.output}' has shape {list(scores.shape)} and the labels "
                f"{list(labels.shape)} in one run; there must be one label for each row of scores"
            )
        flat, classes = labels.reshape(-1).astype(np.int64), scores.shape[-1]
        wrong = flat[(flat < 0) | (flat >= classes)]
        if wrong.size:
            raise UsageError(
                f"--metric {measure.name}: label {wrong[0]} has no score; output '{measure.output}' has classes 0 to "
                f"{classes - 1}"
            )
        return scores.reshape(-1, classes), flat


def _extents(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its axes of length 1, which exporters add and remove."""
    return tuple(extent for extent in shape if extent != 1)
