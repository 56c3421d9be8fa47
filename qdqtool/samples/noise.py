"""Random inputs with a seed for models without data, and example shapes of inputs for messages.

Floats are normally distributed, in the range of the first Q that reads the input. Without such a Q they are standard
normal. Integers that index a table are valid row numbers. Other 8-bit integers take all values, and other integers are
0 to 9. Booleans are uniform. Batch dimensions are 1. The user must give every other dynamic dimension.

The range matters: a model that was calibrated on images from 0 to 1 clips half of the values of a standard normal
distribution. Its outputs for such inputs say little about the model.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import TensorTypes
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops import ProductOp
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT64, Array
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.input_shapes import spell_shapes
from qdqtool.samples.report import DataDescription
from qdqtool.samples.signature import Dim, InputSpec

# By rank: 224 for images, 32 for volumes, else 128 for sequences. Only messages propose these sizes; no command uses
# them by default: an engine for 1x3x1x1 would build without complaint and be useless.
_USUAL = {4: 224, 5: 32}
_USUAL_ELSE = 128
_KEEP_CHANNELS = ("QuantizeLinear", "DequantizeLinear", "Cast", "Identity", "Mul", "Div", "Add", "Sub", "Clip")
_DEPTH = 8


_Product = tuple[NodeView, ProductOp, tuple[int, ...]]


def example_option(index: ModelIndex, inputs: Mapping[str, Sequence[Dim] | None], known: Mapping[str, int]) -> str:
    """Format example shapes of inputs as one string, such as ``x:1x3x224x224,mask:1x128``.

    Args:
        index: The model.
        inputs: The declared dimensions of each input; None for an input of unknown rank.
        known: Known sizes of symbolic dimensions.
    """
    sizes = dict(known)
    return spell_shapes({name: _example(index, name, dims, sizes) for name, dims in inputs.items()})


def _example(index: ModelIndex, name: str, dims: Sequence[Dim] | None, sizes: dict[str, int]) -> tuple[int, ...]:
    """Return an example shape for one input; symbols that get a size here are added to ``sizes``."""
    rank, axis, channels = _first_layer(index.view.main.values[name], index)
    declared: Sequence[Dim] = dims if dims is not None else (None,) * (rank or 2)
    found: list[int] = []
    for place, dim in enumerate(declared):
        size = sizes.get(dim) if isinstance(dim, str) else dim
        if size is None and channels is not None and place == axis % len(declared):
            size = channels
        if size is None:
            size = _USUAL.get(len(declared), _USUAL_ELSE) if place else 1
        if isinstance(dim, str):
            sizes[dim] = size
        found.append(size)
    return tuple(found)


def _first_layer(value: Value, index: ModelIndex) -> tuple[int | None, int, int | None]:
    """Return the rank, the channel axis and the number of channels that the first layer after a tensor needs."""
    for node, product, weight in _products(value, index, _DEPTH):
        layout = product.product_layout(node, weight)
        if layout is not None:
            return (len(weight), 1, layout.inputs) if product.is_convolution else (2, -1, layout.inputs)
    return None, 0, None


def _products(value: Value, index: ModelIndex, depth: int) -> Iterator[_Product]:
    for use in value.uses:
        product = ops.product(use.node)
        if product is not None and use.index == 0:
            weight = use.node.input(product.weight_input)
            shape = index.types.shape(weight) if weight is not None else None
            extents = tuple(extent for extent in shape or () if isinstance(extent, int))
            if shape and len(extents) == len(shape) and 0 not in extents:
                yield use.node, product, extents
        output = use.node.output()
        if output is not None and depth and use.node.is_op(*_KEEP_CHANNELS):
            yield from _products(output, index, depth - 1)


STEPS = 16
DEVIATIONS = 4.0
"""Number of standard deviations between the middle and an end of a range: 1 value in 16,000 is outside."""

SMALLEST, LARGEST = 1e-6, 1e4
"""A range that is narrower or wider than this comes from a damaged scale. Float16 ends at 65504."""


@dataclass(frozen=True, slots=True)
class InputRange:
    """The range of an input.

    Attributes:
        low: Lower end.
        high: Upper end.
    """

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


DEFAULT_SAMPLES = 4
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


def random_feeds(index: ModelIndex, specs: Sequence[InputSpec], *, seed: int, samples: int | None = None) -> Feeds:
    """Return random samples for a model.

    Args:
        index: The index of the model. It shows which tables integer inputs index, and the first Q of each float input.
        specs: Inputs of the model, with the shapes that the user fixed.
        seed: The same seed gives the same samples.
        samples: Number of runs; the default is :data:`DEFAULT_SAMPLES`.
    """
    batch_names = _batch_names(specs)
    _require_closed(index, specs, batch_names)
    fixed = tuple(InputSpec(spec.name, spec.dtype, _closed(spec.shape or (), batch_names)) for spec in specs)
    bounds = {spec.name: _bound(spec, index) for spec in fixed}
    count = DEFAULT_SAMPLES if samples is None else samples
    shapes = {spec.name: tuple(d for d in spec.shape or () if isinstance(d, int)) for spec in fixed}
    ranges = {spec.name: found for spec in fixed if spec.dtype.kind == "f" and (found := range_of(spec.name, index))}
    return Feeds(RandomSamples(fixed, bounds, ranges, seed, count), DataDescription("random", count, seed, shapes))


def _batch_names(specs: Sequence[InputSpec]) -> set[str]:
    """Return the symbolic dimensions that are the first of an input, or that have ``batch`` in their name."""
    first = {spec.shape[0] for spec in specs if spec.shape}
    named = {dim for spec in specs for dim in spec.shape or () if isinstance(dim, str) and "batch" in dim.lower()}
    return {dim for dim in first if isinstance(dim, str)} | named


def _require_closed(index: ModelIndex, specs: Sequence[InputSpec], batch_names: set[str]) -> None:
    """Refuse inputs with dynamic dimensions; the hint has an example with which the model can run."""
    unsettled = [spec for spec in specs if spec.shape is None or None in _closed(spec.shape, batch_names)]
    if not unsettled:
        return
    first = unsettled[0]
    what = "has no shape in the model" if first.shape is None else f"has open dimensions ({first})"
    example = example_option(index, {spec.name: spec.shape for spec in unsettled}, dict.fromkeys(batch_names, 1))
    raise UsageError(
        f"input '{first.name}' {what}, so no random data can be made for it",
        hint=f"give data, or shapes, for example: `--input-shapes {shlex.quote(example)}`",
    )


def _closed(shape: Sequence[Dim], batch_names: set[str]) -> tuple[int | None, ...]:
    return tuple(_extent(dim, index, batch_names) for index, dim in enumerate(shape))


def _extent(dim: Dim, index: int, batch_names: set[str]) -> int | None:
    if isinstance(dim, int):
        return dim
    return 1 if index == 0 or dim in batch_names else None


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


def _bound(spec: InputSpec, index: ModelIndex) -> int:
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
