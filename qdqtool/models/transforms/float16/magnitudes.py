"""The largest magnitudes of tensors: as measured, or derived from constants and operators."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.constants import Array
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics import formats

FINITE = 65504.0
"""The largest finite float16."""

LARGEST = FINITE / 4
"""Largest measured magnitude of a tensor in float16; the factor of 4 is left for data that was not measured."""

NORMAL = 2.0**-14
"""The smallest normal float16. Smaller values have fewer bits, and hardware may flush them to zero."""

TINIEST = 2.0**-24
"""The smallest float16 above zero."""


MAX_DEPTH = 64


@dataclass(slots=True)
class Magnitudes:
    """The largest magnitude of each tensor, as far as it is known.

    Attributes:
        measured: The magnitudes of observed tensors, by scope and name.
        index: The index of the model.
    """

    measured: Mapping[TensorKey, float]
    index: ModelIndex
    _known: dict[Value, float | None] = field(default_factory=dict)

    def of(self, value: Value) -> float | None:
        """Return the largest finite magnitude of the elements of a tensor; None where it is unknown."""
        return self._of(value, MAX_DEPTH)

    def _of(self, value: Value, depth: int) -> float | None:
        if value not in self._known:
            # Set first, so that a cycle ends: its magnitudes are unknown.
            self._known[value] = None
            self._known[value] = self._find(value, depth)
        return self._known[value]

    def _find(self, value: Value, depth: int) -> float | None:
        measured = self.measured.get(tensor_key(value))
        if measured is not None:
            return measured
        if self.index.constants.is_constant(value):
            array = self.index.constants.array(value)
            return largest(array) if array is not None else None
        entry = self.index.qdq.dequantizer_of(value)
        if entry is not None:
            return self._of_dequantized(entry)
        node = value.producer
        moved = node.input(0) if node is not None and ops.traits(node).keeps_magnitude else None
        return self._of(moved, depth - 1) if moved is not None and depth else None

    def _of_dequantized(self, entry: QdqNode) -> float | None:
        """Return the largest scale times the largest magnitude of a code."""
        scale = self.index.constants.array(entry.scale) if entry.scale is not None else None
        fmt = formats.by_onnx_type(entry.quantized_type or 0)
        if scale is None or fmt is None:
            return None
        return largest(scale) * max(abs(fmt.low), abs(fmt.high))


def largest(array: Array) -> float:
    """Return the largest finite magnitude in an array; 0 where there is none."""
    if not array.size:
        return 0.0
    # min and max return NaN where there is one; most arrays are finite and need no mask.
    low, high = float(array.min()), float(array.max())
    finite = np.isfinite(low) and np.isfinite(high)
    return max(abs(low), abs(high)) if finite else largest(array[np.isfinite(array)])
