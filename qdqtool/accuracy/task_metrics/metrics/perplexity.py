"""Perplexity: ``exp(mean(-log p))`` over predictions, where ``p`` is the probability of the right class.

Scores are logits: ``-log p = log(sum(exp(scores))) - scores[label]``, in float64 after subtracting the largest score,
so that nothing overflows. Lower is better and 1 is perfect. A loss is given in percent of the reference's perplexity.
"""

import math

import numpy as np

from qdqtool.numerics.dtypes import FLOAT64, Array

LARGE_LOSS = 20.0
"""A larger loss fails a check without a limit; in percent of the reference's perplexity."""


class Perplexity:
    """The metric."""

    unit = ""
    loss_unit = "%"
    is_recall = False

    def total(self, scores: Array, labels: Array) -> float:
        """Return the sum of ``-log p``; NaN if scores are not finite."""
        exact = scores.astype(FLOAT64)
        if not np.isfinite(exact).all():
            return math.nan
        top = np.max(exact, axis=-1, keepdims=True)
        log_sum = np.log(np.sum(np.exp(exact - top), axis=-1)) + top[:, 0]
        return float(np.sum(log_sum - np.take_along_axis(exact, labels[:, None], axis=-1)[:, 0]))

    def value(self, mean: float) -> float:
        """Return ``exp(mean)``; infinite beyond the range of float64."""
        try:
            return math.exp(mean)
        except OverflowError:
            return math.inf

    def loss(self, value: float, reference: float) -> float:
        """Return the loss in percent of the reference."""
        return 100 * (value / reference - 1)

    def resolution(self, predictions: int) -> float | None:
        """Return None: any change of a probability counts."""
        del predictions
        return None

    def large_loss(self, reference: float, predictions: int) -> float:
        """Return 20 %; infinite without predictions."""
        del reference
        return LARGE_LOSS if predictions else math.inf

    def chance(self, value: float, predictions: int, classes: int) -> str | None:
        """Return why the perplexity is no better than guessing (the number of classes); None if it is better."""
        del predictions
        # A NaN is no better than chance.
        if value < classes:
            return None
        return f"it is {value:.6g}, and equal probabilities for all {classes} classes give {classes}"


METRIC = Perplexity()
