"""Moments of the inputs of products whose weights are decided in graph order, each after all weights before it.

The float model and a copy with the decided weights run side by side, in parts
(:mod:`qdqtool.models.running.graph_parts`): every node runs once for a sample in each of the two. Tensors that later
parts read stay in memory until then.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import onnx

from qdqtool.models import ops
from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.options import Profile
from qdqtool.models.plan import Slot
from qdqtool.models.running.graph_parts import BEFORE, GraphPart, Parts, cut_graph
from qdqtool.models.running.ort_cpu import Session
from qdqtool.models.running.own_segments import Stage, segment_model
from qdqtool.models.running.own_support import EvaluatorSplit, plan_split
from qdqtool.models.transforms.taps import READABLE_AS
from qdqtool.numerics.compensation import InputChange, PairedMoments
from qdqtool.numerics.dtypes import FLOAT32, Array
from qdqtool.quantization.statistics.channel_statistics import FOLDS
from qdqtool.quantization.statistics.input_moments import activation_of, is_usable
from qdqtool.samples.feeds import Feeds, Progress

Known = dict[str, Array]
"""Tensors of one sample, by name."""


@dataclass(slots=True, eq=False)
class SamplePair:
    """The tensors of one sample in both models; both are the same mapping as long as nothing differs."""

    exact: Known
    rounded: Known

    def drop(self, names: Iterable[str]) -> None:
        """Remove tensors from both models."""
        for name in names:
            self.exact.pop(name, None)
            self.rounded.pop(name, None)

    @property
    def bytes(self) -> int:
        """The memory that the tensors take; tensors that both models share count once."""
        arrays = {id(array): array for known in (self.exact, self.rounded) for array in known.values()}
        return sum(array.nbytes for array in arrays.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Replaced:
    """A weight that the copy reads instead of the original weight."""

    slot: Slot
    values: Array


@dataclass(slots=True, eq=False)
class PartRuns:
    """Runs the parts of one model."""

    index: ModelIndex
    _replaced: dict[tuple[NodeKey, int], _Replaced] = field(default_factory=dict)

    def can_exchange(self, names: Iterable[str]) -> bool:
        """Return whether tensors can be passed from one part to the next: arrays of types that NumPy has."""
        values = self.index.view.main.values
        types = [self.index.elem_type(values[name]) if name in values else None for name in names]
        return all(found and found not in READABLE_AS for found in types)

    def replace(self, slot: Slot, values: Array) -> None:
        """Make the uses of a main-graph weight read other values in the copy, until their parts were run."""
        for use in slot.uses or ():
            self._replaced[use.node, use.index] = _Replaced(slot, values)

    def run(self, part: GraphPart, samples: Sequence[SamplePair]) -> None:
        """Run a part once on all samples in both models; add the tensors that later parts read to each sample."""
        nodes, constants = self._copied(part.nodes)
        for sample in samples:
            if constants and sample.rounded is sample.exact:
                sample.rounded = dict(sample.exact)
        self._run(part.nodes, part.kept, (), [sample.exact for sample in samples])
        self._run(nodes, part.kept, constants, [each.rounded for each in samples if each.rounded is not each.exact])

    def _copied(self, nodes: Sequence[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        """Return the nodes of the copy, and the replaced weights that these nodes read."""
        copies: list[onnx.NodeProto] = []
        weights: dict[str, onnx.TensorProto] = {}
        for node in nodes:
            # Removed from the mapping: keeping the values of all weights would take the size of the model in float32.
            key = tuple(node.output)
            found = [(i, each) for i in range(len(node.input)) if (each := self._replaced.pop((key, i), None))]
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            for position, each in found:
                copy.input[position] = self._name(each.slot)
                elem_type = self.index.elem_type(self.index.value(each.slot))
                assert elem_type is not None
                weights[copy.input[position]] = make_tensor(copy.input[position], each.values, elem_type)
            copies.append(copy)
        return copies, list(weights.values())

    def _name(self, slot: Slot) -> str:
        """Return an unused tensor name for the replacement of a slot."""
        first = next(iter(slot.uses or ()))
        name = f"{slot.tensor} of {first.node[0]}"
        while name in self.index.view.main.values:
            name += "_"
        return name

    def _run(
        self,
        nodes: Sequence[onnx.NodeProto],
        kept: set[str],
        constants: Sequence[onnx.TensorProto],
        samples: Sequence[Known],
    ) -> None:
        if not nodes or not samples:
            return
        values = self.index.view.main.values
        types = {name: found for name in kept if (found := self.index.elem_type(values[name])) is not None}
        split = EvaluatorSplit({}, {}, types, self.index)
        segment = segment_model(self.index.model, split, Stage(list(nodes), needed=kept), samples[0])
        segment.model.proto.graph.initializer.extend(constants)
        with Session(segment.model, Profile.DEPLOYED) as session:
            for known in samples:
                known.update(session.run({name: known[name] for name in segment.inputs}))


MOST_BYTES = 1 << 30
"""Largest size in bytes of tensors kept between parts. If they need more, the last samples are left out."""

BATCH = 16
"""Number of samples whose rows are multiplied together."""

Folds = list[PairedMoments]
"""Moments on disjoint parts of the samples."""


class SequentialMoments:
    """Moments for the weights of the main graph, each measured with all decided weights before it."""

    def __init__(self, index: ModelIndex, feeds: Feeds, progress: Progress | None = None) -> None:
        self._index = index
        self._feeds = feeds
        self._progress = progress
        self._nodes = {node.key: node for node in index.view.main.nodes}
        self._runs = PartRuns(index)

    def of(self, weights: Sequence[Slot]) -> Iterator[tuple[list[Slot], Folds]]:
        """Yield the matrices that read one activation, with the moments of its values, in the order of the graph.

        Call :meth:`decide` with the dequantized values of each matrix before you take the next group.

        A weight is left out if a product in a body or function reads it, if several activations are multiplied with it,
        or if its inputs are not finite. All weights are left out if ONNX Runtime alone cannot run the model, or if its
        parts would have to exchange anything but arrays.
        """
        products = {slot: found for slot in weights if (found := self._products(slot))}
        inputs = {slot: next(iter(found.values())) for slot, found in products.items()}
        merged = {key: name for found in products.values() for key, name in found.items()}
        main = self._index.view.main
        parts = cut_graph(self._index.model.proto.graph, merged, main.input_names())
        crossing = {name for part in parts.parts for name in part.kept}
        if not inputs or plan_split(self._index, Profile.DEPLOYED) is not None or not self._runs.can_exchange(crossing):
            return
        yield from self._by_stage(inputs, parts)

    def decide(self, slot: Slot, values: Array) -> None:
        """Set the dequantized values of a matrix; later matrices are measured with these values."""
        self._runs.replace(slot, values)

    def _by_stage(self, inputs: Mapping[Slot, str], parts: Parts) -> Iterator[tuple[list[Slot], Folds]]:
        samples = [SamplePair(known, known) for known in map(dict, self._feeds)]
        last = max((parts.made.get(name, BEFORE) for name in inputs.values()), default=BEFORE)
        for number in range(BEFORE, last + 1):
            if number != BEFORE:
                if self._progress is not None:
                    self._progress(number, last + 1)
                self._runs.run(parts.parts[number], samples)
            stage = {slot: name for slot, name in inputs.items() if parts.made.get(name) == number}
            for name in dict.fromkeys(stage.values()):
                if folds := _folds(samples, name):
                    yield [slot for slot, read in stage.items() if read == name], folds
            if number != BEFORE:
                for sample in samples:
                    sample.drop(parts.parts[number].unread)
            samples = _affordable(samples)

    def _products(self, slot: Slot) -> dict[NodeKey, str]:
        """Return the products of a matrix with the name of their activation; empty unless all read the same one."""
        found: dict[NodeKey, str] = {}
        for use in slot.uses or ():
            reader = None if slot.scope or use.scope else self._nodes.get(use.node)
            products = list(ops.computing_nodes(reader)) if reader is not None else []
            activations = [self._activation(product) for product in products]
            if not activations or "" in activations:
                return {}
            found.update({product.key: name for product, name in zip(products, activations, strict=True)})
        return found if len(set(found.values())) == 1 else {}

    def _activation(self, product: NodeView) -> str:
        value = activation_of(product)
        return "" if value is None or product.scope.path or value.scope.path else value.name


def _folds(samples: Sequence[SamplePair], name: str) -> Folds:
    """Return the moments on every :data:`FOLDS`-th sample; empty if they are not finite or all zero."""
    found = [_moments(samples[first::FOLDS], name) for first in range(FOLDS)]
    kept = [each for each in found if each is not None]
    usable = all(is_usable(each.inputs) and (each.change is None or each.change.is_finite) for each in kept)
    return kept if usable else []


def _moments(samples: Sequence[SamplePair], name: str) -> PairedMoments | None:
    full = [sample for sample in samples if sample.rounded[name].size]
    inputs, changes = None, list[Callable[[], tuple[Array, Array]]]()
    for first in range(0, len(full), BATCH):
        batch = full[first : first + BATCH]
        rounded = _rows([sample.rounded[name] for sample in batch])
        # An overflow gives infinity; the caller detects it.
        with np.errstate(all="ignore"):
            moments = rounded.T @ rounded
            inputs = moments if inputs is None else np.add(inputs, moments, out=inputs)
            if batch[0].rounded is not batch[0].exact:
                exact = [sample.exact[name] for sample in batch]
                # The arrays of the samples are in memory anyway; joining their rows now would copy them.
                changes.append(partial(_changed_rows, [sample.rounded[name] for sample in batch], exact))
    return None if inputs is None else PairedMoments(inputs, InputChange(tuple(changes)) if changes else None)


def _changed_rows(rounded: Sequence[Array], exact: Sequence[Array]) -> tuple[Array, Array]:
    rows = _rows(rounded)
    return rows, _rows(exact) - rows


def _rows(arrays: Sequence[Array]) -> Array:
    rows = [array.reshape(-1, array.shape[-1]) for array in arrays]
    return np.concatenate(rows).astype(FLOAT32, copy=False)


def _affordable(samples: list[SamplePair]) -> list[SamplePair]:
    """Return the first samples that fit into :data:`MOST_BYTES`, at least one."""
    total = np.cumsum([sample.bytes for sample in samples])
    return samples[: max(int(np.count_nonzero(total <= MOST_BYTES)), 1)]
