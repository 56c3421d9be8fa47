"""Top-1 accuracy: the share of predictions whose highest score is that of the right class, in percent.

Of equal scores the first counts, as in ONNX's ArgMax. A loss is given in percentage points: from 99 % to 98.5 % it is
0.5.
"""

from dataclasses import dataclass

import numpy as np

from qdqtool.numerics.dtypes import Array


@dataclass(frozen=True, slots=True)
class Top1:
    """The metric."""

    unit: str = "%"
    loss_unit: str = "percentage points"

    def total(self, scores: Array, labels: Array) -> float:
        """Return the number of right predictions."""
        return float(np.count_nonzero(np.argmax(scores, axis=-1) == labels))

    def value(self, mean: float) -> float:
        """Return the share in percent."""
        return 100 * mean

    def loss(self, value: float, reference: float) -> float:
        """Return the loss in percentage points."""
        return reference - value


METRIC = Top1()
