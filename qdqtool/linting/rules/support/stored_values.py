"""The constants that a model computes with, as real numbers: codes are dequantized."""

import contextlib

import numpy as np

from qdqtool.errors import ArgumentError, ModelError
from qdqtool.linting.rules.support.rule_context import Array, RuleContext
from qdqtool.linting.rules.support.words import format_of
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import element_count
from qdqtool.numerics.affine import dequantize
from qdqtool.numerics.granularity import Blocked, PerAxis, normalize_axis

MOST_READ = 1 << 23
"""The most elements of a constant that are read; larger ones count as unknown."""
MOST_READ_TOGETHER = 1 << 25
"""The same for all constants of a model, which takes half a second; ResNet-50 has 25 million weights."""
MOST_KEPT = 1 << 16
"""The most elements of an array that is kept: the weight of a product is read once."""
MAX_STEPS = 8


class StoredValues:
    """Reads constants, each once, up to a limit.

    Args:
        context: The model.
    """

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._left = MOST_READ_TOGETHER
        self._arrays: dict[Value | None, Array | None] = {}

    def is_constant(self, value: Value | None) -> bool:
        """Return whether a tensor is constant, or made of a constant by Q, DQ and nodes that only move values."""
        source, _ = self._traced(value)
        return source is not None and self._context.constants.is_constant(source)

    def array(self, value: Value | None) -> Array | None:
        """Return the real numbers of a constant; None where it is computed, too large or cannot be read."""
        if value in self._arrays:
            return self._arrays[value]
        found = None
        # Other rules report what cannot be read.
        with contextlib.suppress(ModelError, ArgumentError, ValueError):
            found = self._computed(value)
        if found is None or found.size <= MOST_KEPT:
            self._arrays[value] = found
        return found

    def _traced(self, value: Value | None) -> tuple[Value | None, list[NodeView]]:
        """Return the tensor that a tensor is made of by Q, DQ and nodes that only move values, and these nodes.

        They are followed for a few steps only: a damaged model may have a cycle, and a hostile one a chain of any
        length.
        """
        source = value
        nodes: list[NodeView] = []
        while source is not None and source.producer is not None and len(nodes) < MAX_STEPS:
            node = source.producer
            if self._context.qdq.get(node) is None and not ops.traits(node).reorders_axes:
                break
            nodes.append(node)
            source = node.input(0)
        return source, nodes[::-1]

    def _computed(self, value: Value | None) -> Array | None:
        source, nodes = self._traced(value)
        found, are_codes = self._read(source) if source is not None else None, True
        for node in nodes:
            if found is None:
                return None
            entry = self._context.qdq.get(node)
            if entry is None:
                found = _reordered(node, found)
                continue
            # The rounding of a Q changes no bound: behind one the values stay what they are.
            if are_codes and not entry.is_quantize:
                found = self._dequantized(entry, found)
            are_codes = False
        return found

    def _read(self, value: Value) -> Array | None:
        stored = self._context.constants.direct(value)
        size = element_count(stored) if stored is not None else 0
        if size > min(MOST_READ, self._left):
            return None
        self._left -= size
        found = self._context.constants.array(value)
        return found if found is not None and found.dtype.kind in "fiuV" else None

    def _dequantized(self, entry: QdqNode, data: Array) -> Array | None:
        scale, zero = self._context.array(entry.scale), self._context.array(entry.zero_point)
        granularity, is_known = entry.granularity, format_of(entry.quantized_type) is not None
        if not is_known or scale is None or granularity is None or (zero is None and entry.zero_point is not None):
            return None
        if isinstance(granularity, Blocked) or (zero is not None and zero.any()):
            return dequantize(data, scale, granularity, zero, output_dtype="float32")
        # Most weights: the general function takes five times as long for small ones.
        steps = scale.astype(np.float32)
        if isinstance(granularity, PerAxis):
            steps = steps.reshape(-1, *[1] * (data.ndim - 1 - normalize_axis(granularity.axis, data.ndim)))
        # A scale that does not fit makes a larger array, which has no such shape.
        return np.multiply(data, steps, dtype=np.float32).reshape(data.shape)


def _reordered(node: NodeView, array: Array) -> Array | None:
    order = [axis for each in range(array.ndim) if (axis := ops.source_axis(node, each, array.ndim)) is not None]
    return np.transpose(array, order)
