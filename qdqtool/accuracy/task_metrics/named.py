"""Measure with a metric of ours: a mean over predictions, from the scores of one output."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.accuracy.task_metrics import metrics
from qdqtool.accuracy.task_metrics.measure import Score
from qdqtool.accuracy.task_metrics.metrics import TaskMetric
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.registry import suggestion
from qdqtool.samples import Sample


@dataclass(frozen=True, slots=True)
class NamedRequest:
    """A request for one of the metrics.

    Attributes:
        name: Public id of the metric.
        metric: The metric.
        output: The output that holds its scores; empty for the only one.
        needs_labels: True.
    """

    name: str
    metric: TaskMetric
    output: str = ""
    needs_labels: bool = True

    @classmethod
    def of(cls, request: str) -> "NamedRequest":
        """Read ``NAME`` or ``NAME:OUTPUT``."""
        name, _, output = request.partition(":")
        return cls(name, metrics.get(name), output)

    def measure(self, outputs: Sequence[str]) -> "NamedMeasure":
        """Return the metric for a model with these outputs.

        Raises:
            UsageError: The output is unknown, or not named where there are several.
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
        return NamedMeasure(self.name, self.output or outputs[0], self.metric)


@dataclass(frozen=True, slots=True)
class NamedMeasure:
    """A metric of one output.

    Attributes:
        name: Public id of the metric.
        output: The output that holds its scores.
        metric: The metric.
    """

    name: str
    output: str
    metric: TaskMetric

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
        """Return the loss that one prediction more makes; None where a loss can be of any size."""
        return self.metric.resolution(predictions)


@dataclass(slots=True)
class NamedTally:
    """What is counted of one model.

    Attributes:
        measure: The metric.
        total: Sum over predictions of what the metric averages.
        count: Number of predictions.
        classes: The least number of classes in a run; 0 before the first.
    """

    measure: NamedMeasure
    total: float = 0.0
    count: int = 0
    classes: int = 0

    def add(self, outputs: Mapping[str, Array], sample: Sample) -> None:
        """Count one run.

        Args:
            outputs: Outputs of the model; that of the scores has classes along its last axis.
            sample: The inputs, with labels.
        """
        rows, labels = self._rows(sample.without_filler(outputs[self.measure.output]), sample)
        self.total += self.measure.metric.total(rows, labels)
        self.count += labels.size
        self.classes = min(self.classes or rows.shape[-1], rows.shape[-1])

    def score(self) -> Score:
        """Return the metric over all runs; NaN over none."""
        metric = self.measure.metric
        value = metric.value(self.total / self.count if self.count else math.nan)
        chance = metric.chance(value, self.count, self.classes) if self.count else None
        return Score(value=value, predictions=self.count, chance=chance)

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
