"""Compute a task metric over all samples: of the model, of its baseline, and of outputs saved elsewhere."""

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdqtool.data import Sample
from qdqtool.errors import UsageError
from qdqtool.numerics.dtypes import Array
from qdqtool.registry import suggestion
from qdqtool.task_metrics import metrics
from qdqtool.task_metrics.metrics import TaskMetric
from qdqtool.task_metrics.result import MetricResult


@dataclass(slots=True)
class _Mean:
    total: float = 0.0
    count: int = 0

    @property
    def value(self) -> float:
        return self.total / self.count if self.count else math.nan


@dataclass(slots=True)
class MetricCheck:
    """One metric of one output.

    Attributes:
        name: Public id of the metric.
        output: The output that holds its scores.
        metric: The metric.
        means: The means so far, by the source of the scores: ``model``, ``baseline`` or ``saved``.
        classes: The least number of classes in a run; 0 before the first.
    """

    name: str
    output: str
    metric: TaskMetric
    means: dict[str, _Mean] = field(default_factory=dict)
    classes: int = 0

    @classmethod
    def of(cls, request: str, outputs: Sequence[str]) -> "MetricCheck":
        """Make the metric that ``NAME`` or ``NAME:OUTPUT`` requests.

        Args:
            request: The request.
            outputs: Names of the model's outputs.

        Raises:
            ArgumentError: The metric is unknown.
            UsageError: The output is unknown, or not named where there are several.
        """
        name, _, output = request.partition(":")
        metric = metrics.get(name)
        if not output and len(outputs) != 1:
            raise UsageError(
                f"--metric {name}: the model has {len(outputs)} outputs: {', '.join(outputs)}",
                hint=f"name the one with the scores, for example: `--metric {shlex.quote(f'{name}:{outputs[0]}')}`"
                if outputs
                else None,
            )
        if output and output not in outputs:
            raise UsageError(
                f"--metric {request}: '{output}' is no output; the outputs are {', '.join(outputs)}"
                f"{suggestion(output, outputs)}"
            )
        return cls(name, output or outputs[0], metric)

    def add(self, source: str, scores: Array, sample: Sample) -> None:
        """Count one run.

        Args:
            source: ``model``, ``baseline`` or ``saved``.
            scores: The output, with classes along its last axis; padded rows are left out.
            sample: The inputs, with labels.

        Raises:
            UsageError: The output holds no scores for these labels.
        """
        rows, labels = self._rows(sample.without_filler(scores), sample)
        mean = self.means.setdefault(source, _Mean())
        mean.total += self.metric.total(rows, labels)
        mean.count += labels.size
        self.classes = min(self.classes or rows.shape[-1], rows.shape[-1])

    def result(self) -> MetricResult:
        """Return the entry of the report."""
        values = {source: self.metric.value(mean.value) for source, mean in self.means.items()}
        value, baseline, saved = values["model"], values.get("baseline"), values.get("saved")
        return MetricResult(
            name=self.name,
            output=self.output,
            unit=self.metric.unit,
            loss_unit=self.metric.loss_unit,
            predictions=self.means["model"].count,
            value=value,
            baseline=baseline,
            loss=self.metric.loss(value, baseline) if baseline is not None else None,
            saved=saved,
            saved_loss=self.metric.loss(saved, value) if saved is not None else None,
            chance=self._chance("model"),
            baseline_chance=self._chance("baseline"),
        )

    def _chance(self, source: str) -> str | None:
        mean = self.means.get(source)
        if mean is None or not mean.count:
            return None
        return self.metric.chance(self.metric.value(mean.value), mean.count, self.classes)

    def _rows(self, scores: Array, sample: Sample) -> tuple[Array, Array]:
        assert sample.labels is not None
        labels = sample.labels
        # Kind V holds the float types of ml_dtypes, such as bfloat16.
        if not scores.ndim or scores.dtype.kind not in "fV":
            raise UsageError(
                f"--metric {self.name}: output '{self.output}' is {scores.dtype} {list(scores.shape)}; "
                "it must hold float scores, with the classes along its last axis"
            )
        if _extents(scores.shape[:-1]) != _extents(labels.shape):
            raise UsageError(
                f"--metric {self.name}: output '{self.output}' has shape {list(scores.shape)} and the labels "
                f"{list(labels.shape)} in one run; there must be one label for each row of scores"
            )
        flat, classes = labels.reshape(-1).astype(np.int64), scores.shape[-1]
        wrong = flat[(flat < 0) | (flat >= classes)]
        if wrong.size:
            raise UsageError(
                f"--metric {self.name}: label {wrong[0]} has no score; output '{self.output}' has classes 0 to "
                f"{classes - 1}"
            )
        return scores.reshape(-1, classes), flat


def _extents(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape without its axes of length 1, which exporters add and remove."""
    return tuple(extent for extent in shape if extent != 1)
