"""Find the range that the inputs of a quantized model have, from the first Q that reads each of them.

A model that was calibrated on images between 0 and 1 clips half of what a standard normal distribution gives. What such
inputs show of the model says little, so random inputs are drawn in the range for which the model was made.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT64, Array

STEPS = 16
DEVIATIONS = 4.0
"""Standard deviations between the middle of a range and its ends: one value in 16,000 lies outside."""

SMALLEST, LARGEST = 1e-6, 1e4
"""Ranges outside these widths are no ranges of inputs, but those of a damaged scale. Float16 ends at 65504."""


@dataclass(frozen=True, slots=True)
class InputRange:
    """The range of an input.

    Attributes:
        low: Its lower end.
        high: Its upper end.
    """

    low: float
    high: float

    def fit(self, x: Array) -> Array:
        """Return standard normal values moved and stretched into the range, in their own type."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return np.asarray(x.astype(FLOAT64) * (half / DEVIATIONS) + middle).astype(x.dtype)


def range_of(name: str, index: ModelIndex) -> InputRange | None:
    """Return the range of the first Q that reads an input, through operators that only move or pass on values.

    Args:
        name: Name of the input.
        index: The model.

    Returns:
        The range of the codes; None where no such Q has a constant scale and a range that inputs have.
    """
    return next((found for entry in _first_quantizers(name, index) if (found := _range(entry, index))), None)


def _first_quantizers(name: str, index: ModelIndex) -> Iterator[QdqNode]:
    pending: list[Value] = [index.view.main.values[name]]
    for _ in range(STEPS):
        if not pending:
            return
        value = pending.pop(0)
        for use in value.uses:
            entry = index.qdq.get(use.node)
            if entry is not None and entry.is_quantize and use.index == 0:
                yield entry
                continue
            known = ops.traits(use.node)
            made = use.node.output() if use.index == 0 and (known.moves_values or known.passes_values) else None
            pending += [made] if made is not None else []


def _range(entry: QdqNode, index: ModelIndex) -> InputRange | None:
    fmt = formats.by_onnx_type(entry.quantized_type or 0)
    scale = index.constant(entry.scale) if entry.scale is not None else None
    zero_point = index.constant(entry.zero_point) if entry.zero_point is not None else np.zeros(())
    if fmt is None or scale is None or zero_point is None or entry.scale_shape is None or not scale.size:
        return None
    step, zero = np.abs(scale.astype(FLOAT64)).max(), zero_point.astype(FLOAT64).reshape(-1)[:1].sum()
    if not np.isfinite(step):
        return None
    low, high = (fmt.low - zero) * step, (fmt.high - zero) * step
    return InputRange(float(low), float(high)) if SMALLEST <= high - low <= LARGEST else None
