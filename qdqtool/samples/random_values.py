"""Seeded random values of inputs.

Floats are normally distributed: in the range of the first Q that reads the input, or standard normal if there is no
such Q. Integers that index a table stay inside it, 8-bit integers take their whole range, and all others lie between 0
and 9; booleans are drawn evenly.

The range matters: a model that was calibrated on images from 0 to 1 clips half of the values of a standard normal
distribution. Its outputs for such inputs say little about the model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.samples.signature import InputSpec

STEPS = 16
DEVIATIONS = 4.0
"""Number of standard deviations between the middle and an end of a range: 1 value in 16,000 is outside."""

SMALLEST, LARGEST = 1e-6, 1e4
"""A range that is narrower or wider than this comes from a damaged scale. Float16 ends at 65504."""


@dataclass(frozen=True, slots=True)
class InputRange:
    """The range of an input."""

    low: float
    high: float

    def fit(self, x: Array) -> Array:
        """Return standard normal values, shifted and scaled into the range; the type stays the same."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return np.asarray(x.astype(FLOAT64) * (half / DEVIATIONS) + middle).astype(x.dtype)


def range_of(name: str, index: ModelIndex) -> InputRange | None:
    """Return the range of the first Q that reads an input, directly or after operators that keep the values.

    Returns:
        The range of the codes, or None if no such Q has a constant scale and a plausible range.
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


SMALL_INTEGERS = 10


@dataclass(frozen=True, slots=True)
class RandomSamples:
    """Random samples; sample ``i`` depends only on the seed and on ``i``."""

    specs: tuple[InputSpec, ...]
    bounds: Mapping[str, int]
    ranges: Mapping[str, InputRange]
    seed: int
    count: int

    def __iter__(self) -> Iterator[Mapping[str, Array]]:
        for index in range(self.count):
            generator = np.random.default_rng([self.seed, index])
            yield {spec.name: self._draw(spec, generator) for spec in self.specs}

    def _draw(self, spec: InputSpec, generator: np.random.Generator) -> Array:
        x = _draw(spec, self.bounds[spec.name], generator)
        return self.ranges[spec.name].fit(x) if spec.name in self.ranges else x


def _draw(spec: InputSpec, bound: int, generator: np.random.Generator) -> Array:
    shape = tuple(dim for dim in spec.shape or () if isinstance(dim, int))
    kind = spec.dtype.kind
    if kind == "f":
        return np.asarray(generator.standard_normal(shape, np.float32)).astype(spec.dtype)
    if kind == "c":
        return np.asarray(generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(spec.dtype)
    if kind == "b":
        return np.asarray(generator.integers(0, 2, shape)).astype(spec.dtype)
    if spec.dtype.itemsize == 1 and bound == SMALL_INTEGERS:
        return np.asarray(generator.integers(0, 256, shape, np.uint8)).view(spec.dtype)
    return np.asarray(generator.integers(0, bound, shape)).astype(spec.dtype)


def bound_of(spec: InputSpec, index: ModelIndex) -> int:
    """Return the exclusive upper limit for the integers of an input."""
    if spec.dtype.kind not in "iu":
        return 0
    sizes = list(_table_sizes(index.view.main.values[spec.name], index.types))
    return min(sizes) if sizes else SMALL_INTEGERS


def _table_sizes(start: Value, types: TensorTypes) -> Iterator[int]:
    """Yield the number of rows of each table that ``start`` indexes, also through operators that keep indices."""
    seen: set[Value] = {start}
    pending = [start]
    while pending:
        for use in pending.pop().uses:
            if use.index == 1 and (ops.traits(use.node).looks_up or _is_block_table(use.node)):
                yield from _table_size(use.node, types)
            carried = use.index == 0 and ops.traits(use.node).carries_indices
            follower = use.node.output() if carried else None
            if follower is not None and follower not in seen:
                seen.add(follower)
                pending.append(follower)


def _is_block_table(node: NodeView) -> bool:
    """Return whether the node is GatherBlockQuantized of ONNX Runtime, which looks up rows of a table of codes."""
    return node.domain == "com.microsoft" and node.op_type == "GatherBlockQuantized"


def _table_size(node: NodeView, types: TensorTypes) -> Iterator[int]:
    table = node.input(0)
    shape = types.shape(table) if table is not None else None
    axis = node.attribute("gather_axis" if _is_block_table(node) else "axis", 0)
    if shape is None or not -len(shape) <= axis < len(shape):
        return
    extent = shape[axis]
    if isinstance(extent, int) and extent > 0:
        yield extent
