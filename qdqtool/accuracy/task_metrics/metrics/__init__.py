"""Metrics of how well a model does its task on samples with labels, one in each module.

The file name is the public id, with ``-`` for ``_`` (``--metric top-1``); ``METRIC`` is the value. Every metric is a
function of a mean over predictions, so that it can be computed sample by sample.
"""

from typing import Protocol

from qdqtool.accuracy.task_metrics import metrics as _package
from qdqtool.errors import ArgumentError
from qdqtool.numerics.dtypes import Array
from qdqtool.registry import load_unit, suggestion, unit_names


class TaskMetric(Protocol):
    """One metric."""

    unit: str
    """Unit of its value: ``%``, or empty."""
    loss_unit: str
    """Unit of :meth:`loss`: ``percentage points`` or ``%``."""
    is_recall: bool
    """Whether the value of the predictions of one class is the recall of this class."""

    def total(self, scores: Array, labels: Array) -> float:
        """Return the sum over predictions of the quantity that the metric averages.

        Args:
            scores: ``[n, classes]``, floats.
            labels: ``[n]``, integers from 0 to classes - 1.
        """

    def value(self, mean: float) -> float:
        """Return the metric for the mean over all predictions."""

    def loss(self, value: float, reference: float) -> float:
        """Return the loss of ``value`` against ``reference``; negative if ``value`` is better."""

    def resolution(self, predictions: int) -> float | None:
        """Return the loss that one of ``predictions`` predictions makes, or None if a loss can have any size."""

    def large_loss(self, reference: float, predictions: int) -> float:
        """Return the largest loss that passes a check without a limit; noise of the samples alone is smaller."""

    def chance(self, value: float, predictions: int, classes: int) -> str | None:
        """Return why a value is no better than guessing, in words, or None if it is better."""


def names() -> tuple[str, ...]:
    """The public ids of all metrics, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


def get(name: str) -> TaskMetric:
    """Return the metric with that public id.

    Raises:
        ArgumentError: No metric has that id; the message lists the legal names.
    """
    if name not in names():
        raise ArgumentError(f"metric '{name}' is unknown; legal: {', '.join(names())}{suggestion(name, names())}")
    found: TaskMetric = load_unit(_package, name.replace("-", "_")).METRIC
    return found
