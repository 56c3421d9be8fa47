"""Top-1 accuracy: the share of predictions whose highest score is the score of the right class, in percent.

The first of equal scores counts, as in ONNX's ArgMax. A loss is given in percentage points: it is 0.5 from 99 % to 98.5
%.
"""

import math

import numpy as np

from qdqtool.numerics.dtypes import Array

SIGNIFICANCE = 0.05
"""An accuracy is better than chance if guessing gives as many right answers with at most this probability."""


LARGE_LOSS = 5.0
"""A loss up to this passes a check without a limit; in percentage points."""

LEAST_LOST = 5
"""Number of lost predictions; by a sign test at :data:`SIGNIFICANCE`, fewer may be lost by chance."""


class Top1:
    """The metric."""

    unit = "%"
    loss_unit = "percentage points"
    is_recall = True

    def total(self, scores: Array, labels: Array) -> float:
        """Return the number of right predictions."""
        return float(np.count_nonzero(np.argmax(scores, axis=-1) == labels))

    def value(self, mean: float) -> float:
        """Return the share in percent."""
        return 100 * mean

    def loss(self, value: float, reference: float) -> float:
        """Return the loss in percentage points."""
        return reference - value

    def resolution(self, predictions: int) -> float | None:
        """Return the percentage points of one prediction."""
        return 100 / predictions if predictions else math.inf

    def large_loss(self, reference: float, predictions: int) -> float:
        """Return the largest of 5 percentage points, four predictions, and two standard errors of the difference."""
        if not predictions:
            return math.inf
        share = reference / 100
        error = 100 * math.sqrt(2 * share * (1 - share) / predictions)
        return max(LARGE_LOSS, 100 * (LEAST_LOST - 1) / predictions, 2 * error)

    def chance(self, value: float, predictions: int, classes: int) -> str | None:
        """Return why the right answers may come from guessing: an exact binomial test at :data:`SIGNIFICANCE`."""
        right = round(value / 100 * predictions)
        likely = _tail(right, predictions, 1 / classes)
        if likely <= SIGNIFICANCE:
            return None
        return (
            f"{right} of {predictions} predictions are right; guessing one of {classes} classes gives as many with a "
            f"probability of {likely:.2g}"
        )


def _tail(least: int, trials: int, probability: float) -> float:
    """Return the probability of at least ``least`` hits in independent trials."""
    if probability >= 1:
        return 1.0
    counts = np.arange(trials + 1)
    steps = np.log((trials - counts[:-1]) / counts[1:])
    choices = np.concatenate([np.zeros(1), np.cumsum(steps)])
    logs = choices + counts * math.log(probability) + (trials - counts) * math.log1p(-probability)
    return float(np.exp(logs[least:]).sum())


METRIC = Top1()
