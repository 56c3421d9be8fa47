"""Collect second moments of the inputs of products, for algorithms that round weights with these moments."""

from collections.abc import Iterator, Mapping

import numpy as np

from qdqtool.models import ops
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.ops import ChannelLayout
from qdqtool.models.options import Profile
from qdqtool.models.plan import Slot
from qdqtool.models.running.observer import Observer, is_fed
from qdqtool.numerics.dtypes import Array
from qdqtool.numerics.gptq import Moments
from qdqtool.quantization.statistics.float_runs import run_sample
from qdqtool.samples.feeds import Feeds, Progress

MOST_BYTES = 1 << 30
"""Largest size in bytes of the moments in one pass over the data; more moments need more passes."""


class InputMoments:
    """Second moments of the activations that are multiplied with weights, collected in one or more passes."""

    def __init__(self, index: ModelIndex, feeds: Feeds, progress: Progress | None = None) -> None:
        self._index = index
        self._feeds = feeds
        self._progress = progress
        self._nodes = {(node.scope.path, node.key): node for node in index.view.nodes()}

    def of(self, weights: Mapping[Slot, int]) -> Iterator[tuple[Slot, Moments]]:
        """Yield each matrix with the moments of its inputs; for a shared matrix, their sum over all uses of the slot.

        Weights are left out if an input cannot be observed, was not computed, or is not finite. Readers of the same
        constant outside the slot are ignored: they read it in float, or through a pair with scales on another axis.

        Args:
            weights: Slots of matrices that products read, with the number of their input channels.
        """
        inputs = {slot: found for slot in weights if (found := self._inputs(slot))}
        for group in _groups(inputs, weights):
            sums = self._run({value for slot in group for value in inputs[slot]})
            for slot in group:
                parts = [sums.get(value) for value in inputs[slot]]
                usable = [part for part in parts if part is not None and is_usable(part)]
                if len(usable) == len(parts):
                    yield slot, np.sum(usable, axis=0)

    def _inputs(self, slot: Slot) -> list[Value]:
        """Return the activations that multiply a matrix; empty if one of them has its channels not on the last axis."""
        readers = (self._nodes[use.scope, use.node] for use in slot.uses or ())
        found = [activation_of(node) for reader in readers for node in ops.computing_nodes(reader)]
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
    # An overflow gives infinity; is_usable detects it.
    with np.errstate(all="ignore"):
        product = rows.T @ rows
        if value in sums:
            product += sums[value]
    sums[value] = product


def is_usable(moments: Moments) -> bool:
    """Return whether moments are finite and not all zero."""
    return bool(np.isfinite(moments).all()) and bool(moments.any())


def activation_of(node: NodeView) -> Value | None:
    """Return the activation of a product with a weight on the right, or None if its channels are not last."""
    product = ops.product(node)
    return node.input(0) if product is not None and product.activation_layout(node) is ChannelLayout.LAST else None


def _groups(inputs: Mapping[Slot, list[Value]], channels: Mapping[Slot, int]) -> Iterator[list[Slot]]:
    """Yield groups of weights whose moments fit into :data:`MOST_BYTES`; each has at least one weight."""
    group: list[Slot] = []
    held: set[Value] = set()
    size = 0
    for slot, found in inputs.items():
        own = np.float32().itemsize * channels[slot] ** 2
        more = own * len(set(found) - held)
        if group and size + more > MOST_BYTES:
            yield group
            group, held, size, more = [], set(), 0, own * len(set(found))
        group.append(slot)
        held |= set(found)
        size += more
    if group:
        yield group
