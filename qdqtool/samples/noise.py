"""Random inputs for models without data, and shapes of inputs for messages.

Batch dimensions are 1. The user must give every other open dimension: messages propose sizes that the model accepts.
"""

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

import numpy as np

from qdqtool.errors import QdqError, UsageError
from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.graph.io.tensors import iter_tensors, nbytes
from qdqtool.models.ops import ProductOp
from qdqtool.models.options import Profile
from qdqtool.models.running.ort_cpu import ModelSession
from qdqtool.models.running.ort_errors import RunError
from qdqtool.models.running.own_evaluator import open_session
from qdqtool.models.running.own_support import plan_split
from qdqtool.models.transforms.specialize_branches import deciding_values
from qdqtool.models.transforms.specialize_values import fix_inputs
from qdqtool.samples.feeds import Feeds
from qdqtool.samples.input_shapes import Shapes, Values, spell_shapes, spell_value_options
from qdqtool.samples.random_values import RandomSamples, bound_of, range_of
from qdqtool.samples.report import DataDescription
from qdqtool.samples.signature import Dim, InputSpec, input_specs, with_shapes

DEFAULT_SAMPLES = 4

# By rank: 224 for images, 32 for volumes, else 128 for sequences. Only messages propose these sizes; no command uses
# them by default: an engine for 1x3x1x1 would build without complaint and be useless.
_USUAL = {4: 224, 5: 32}
_USUAL_ELSE = 128
_KEEP_CHANNELS = ("QuantizeLinear", "DequantizeLinear", "Cast", "Identity", "Mul", "Div", "Add", "Sub", "Clip")
_DEPTH = 8


TRIED = 40
"""Number of combinations of sizes that are tried for an example."""

LARGEST_RUN = 1 << 26
"""Largest size of the weights, in bytes, of a model that is run to try example shapes."""

_Size = int | str | tuple[str, int]
"""A dimension: its extent, its symbol, or the input and the axis if it has neither."""

_Product = tuple[NodeView, ProductOp, tuple[int, ...]]


def shapes_hint(
    index: ModelIndex, option: str, inputs: Mapping[str, Sequence[Dim] | None], known: Mapping[str, int], given: Shapes
) -> str:
    """Return the hint for inputs without shapes: options with shapes that the model accepts together, if any are found.

    Args:
        index: The model.
        option: The option that takes shapes.
        inputs: The declared dimensions of each input that needs a shape, None where it declares no rank.
        known: Sizes of symbolic dimensions that are settled already.
        given: Shapes of the other inputs.
    """
    sizes = dict[_Size, int](known.items())
    open_sizes: list[_Size] = []
    dims = {name: _sized(index, name, declared, sizes, open_sizes) for name, declared in inputs.items()}
    problems = list[str]()
    with ExitStack() as stack:
        trial = _Trial(index, given, stack)
        for values in (deciding_values(index), {}):
            for tried in itertools.islice(_assignments(sizes, open_sizes), TRIED):
                shapes = {name: tuple(d if isinstance(d, int) else tried[d] for d in dims[name]) for name in dims}
                problem = trial.problem(shapes, values)
                if not problem:
                    words = shlex.join([option, spell_shapes(shapes), *spell_value_options(values)])
                    return f"give data, or shapes, for example: `{words}`"
                problems.append(problem)
    return (
        f"give data, or shapes of {', '.join(inputs)} that fit all inputs; the usual shapes do not fit: {problems[0]}"
    )


def _sized(
    index: ModelIndex, name: str, dims: Sequence[Dim] | None, sizes: dict[_Size, int], open_sizes: list[_Size]
) -> list[_Size]:
    """Return the dimensions of an input, and add a usual extent to ``sizes`` for each dimension without one."""
    rank, axis, channels = _first_layer(index.view.main.values[name], index)
    declared: Sequence[Dim] = dims if dims is not None else (None,) * (rank or 2)
    found = [dim if dim is not None else (name, place) for place, dim in enumerate(declared)]
    for place, size in enumerate(found):
        if isinstance(size, int) or size in sizes:
            continue
        if channels is not None and place == axis % len(declared):
            sizes[size] = channels
        elif not place:
            sizes[size] = 1
        else:
            sizes[size] = _USUAL.get(len(declared), _USUAL_ELSE)
            open_sizes.append(size)
    return found


def _assignments(sizes: Mapping[_Size, int], open_sizes: Sequence[_Size]) -> Iterator[Mapping[_Size, int]]:
    """Yield sizes for all dimensions: first the usual sizes, then changes of one dimension, of two, and so on."""
    # A mask is as long as the cache and the new tokens together.
    sums = map(sum, itertools.combinations(dict.fromkeys(sizes.values()), 2))
    others = [*sums, 256, 512, 1]
    for count in range(len(open_sizes) + 1):
        for changed in itertools.combinations(open_sizes, count):
            for extents in itertools.product(dict.fromkeys(others), repeat=count):
                yield {**sizes, **dict(zip(changed, extents, strict=True))}


class _Trial:
    """Tries shapes in shape inference and, if that is cheap, in a run in ONNX Runtime."""

    def __init__(self, index: ModelIndex, given: Shapes, stack: ExitStack) -> None:
        self._index, self._given = index, given
        self._is_sound = not index.types.contradictions_of_inferred
        self._session: ModelSession | None = None
        if sum(map(nbytes, iter_tensors(index.model.proto))) <= LARGEST_RUN:
            with suppress(QdqError):
                self._session = stack.enter_context(
                    open_session(index.model, plan_split(index, Profile.LEAN), Profile.LEAN)
                )

    def problem(self, shapes: Shapes, values: Values) -> str:
        """Return the fault of shapes and values of inputs; empty if there is none."""
        shapes = {**self._given, **shapes}
        if self._is_sound:
            wrong = ModelIndex.of(fix_inputs(self._index.model, shapes).model).types.contradictions_of_inferred
            if wrong:
                return wrong[0].text
        if self._session is not None:
            specs = with_shapes(input_specs(self._index.model), shapes)
            sample = next(iter(random_feeds(self._index, specs, seed=0, samples=1)))
            fixed = {name: np.full_like(sample[name], value[0]) for name, value in values.items()}
            try:
                self._session.run({**sample, **fixed})
            except RunError as error:
                return error.message
            except QdqError:
                self._session = None
        return ""


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
    bounds = {spec.name: bound_of(spec, index) for spec in fixed}
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
    closed = {spec.name: _closed(spec.shape, batch_names) if spec.shape is not None else (None,) for spec in specs}
    given = {name: tuple(dim for dim in dims if dim is not None) for name, dims in closed.items() if None not in dims}
    unsettled = {spec.name: spec.shape for spec in specs if spec.name not in given}
    if not unsettled:
        return
    first = next(spec for spec in specs if spec.name in unsettled)
    what = "has no shape in the model" if first.shape is None else f"has open dimensions ({first})"
    raise UsageError(
        f"input '{first.name}' {what}, so no random data can be made for it",
        hint=shapes_hint(index, "--input-shapes", unsettled, dict.fromkeys(batch_names, 1), given),
    )


def _closed(shape: Sequence[Dim], batch_names: set[str]) -> tuple[int | None, ...]:
    return tuple(_extent(dim, index, batch_names) for index, dim in enumerate(shape))


def _extent(dim: Dim, index: int, batch_names: set[str]) -> int | None:
    if isinstance(dim, int):
        return dim
    return 1 if index == 0 or dim in batch_names else None
