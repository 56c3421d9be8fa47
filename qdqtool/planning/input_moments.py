"""Collect second moments of the inputs of products, for algorithms that round weights with respect to them."""

from collections.abc import Iterator, Mapping

import numpy as np

from qdqtool import ops
from qdqtool.data import Feeds
from qdqtool.data.feeds import Progress
from qdqtool.graph.index.model_index import ModelIndex
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.gptq import Moments
from qdqtool.planning.range_planner import computing_nodes
from qdqtool.running.float_runs import run_sample
from qdqtool.running.observer import Observer, is_fed
from qdqtool.running.ort_cpu import Profile

MOST_BYTES = 1 << 30
"""The most bytes of moments in one pass over the data; more moments take more passes."""


class InputMoments:
    """Second moments of the activations with which weights are multiplied, collected in one or more passes.

    Args:
        index: The float model.
        feeds: The samples.
        progress: Told of every sample.
    """

    def __init__(self, index: ModelIndex, feeds: Feeds, progress: Progress | None = None) -> None:
        self._index = index
        self._feeds = feeds
        self._progress = progress

    def of(self, weights: Mapping[Value, int]) -> Iterator[tuple[Value, Moments]]:
        """Yield each matrix with the moments of its inputs; for a shared matrix, their sum over all products.

        Weights are left out if an input cannot be observed, was not computed, or is not finite.

        Args:
            weights: Matrices, with the number of their input channels.

        Raises:
            UsageError: The model fails on a sample.
        """
        inputs = {weight: found for weight in weights if (found := self._inputs(weight))}
        for group in _groups(inputs, weights):
            sums = self._run({value for weight in group for value in inputs[weight]})
            for weight in group:
                parts = [sums.get(value) for value in inputs[weight]]
                usable = [part for part in parts if part is not None and _is_usable(part, weights[weight])]
                if len(usable) == len(parts):
                    yield weight, np.sum(usable, axis=0)

    def _inputs(self, weight: Value) -> list[Value]:
        """Return the activations with which a matrix is multiplied; none if one of its uses is no product."""
        found = [_activation(node, self._index) for use in weight.uses for node in computing_nodes(use.node)]
        known = [value for value in found if value is not None]
        return known if len(known) == len(found) else []

    def _run(self, values: set[Value]) -> Mapping[Value, Moments]:
        ordered = sorted(values, key=lambda value: (value.scope.path, value.name))
        sums: dict[Value, Moments] = {}
        inner = [value for value in ordered if not is_fed(value)]
        with Observer(self._index, inner, Profile.DEPLOYED) as observer:
            for number, sample in enumerate(self._feeds):
                if self._progress is not None:
                    self._progress(number, len(self._feeds))
                run = run_sample(observer, sample, number, self._feeds)
                for value in ordered:
                    for array in observer.arrays(run, sample, value):
                        _add(sums, value, array)
            return {value: found for value, found in sums.items() if observer.problem(value) is None}


def _add(sums: dict[Value, Moments], value: Value, array: Array) -> None:
    if not array.size:
        return
    rows = array.reshape(-1, array.shape[-1]).astype(np.float32, copy=False)
    # An overflow gives infinity, which _is_usable finds.
    with np.errstate(all="ignore"):
        product = rows.T @ rows
        if value in sums:
            product += sums[value]
    sums[value] = product


def _is_usable(moments: Moments, channels: int) -> bool:
    return moments.shape[0] == channels and bool(np.isfinite(moments).all()) and bool(moments.any())


def _activation(node: NodeView, index: ModelIndex) -> Value | None:
    """Return the activation, with channels last, that a product multiplies with its constant right operand."""
    value, product = node.input(0), ops.product(node)
    plain = product is not None and product.is_matrix_product and product.activation_layout(node) is not None
    return value if plain and value is not None and not index.constants.is_constant(value) else None


def _groups(inputs: Mapping[Value, list[Value]], channels: Mapping[Value, int]) -> Iterator[list[Value]]:
    """Yield groups of weights whose moments fit into :data:`MOST_BYTES`, at least one weight each."""
    group: list[Value] = []
    held: set[Value] = set()
    size = 0
    for weight, found in inputs.items():
        own = np.float32().itemsize * channels[weight] ** 2
        more = own * len(set(found) - held)
        if group and size + more > MOST_BYTES:
            yield group
            group, held, size, more = [], set(), 0, own * len(set(found))
        group.append(weight)
        held |= set(found)
        size += more
    if group:
        yield group
