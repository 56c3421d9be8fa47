"""Run parts of a float model, and the same parts of a copy with other weights, side by side."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import onnx

from qdqtool.models.graph.edits.edit import NodeKey
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.plan import Slot
from qdqtool.models.running.graph_parts import Part
from qdqtool.models.running.ort_cpu import Profile, Session
from qdqtool.models.running.own_segments import segment_model
from qdqtool.models.running.own_stages import Stage
from qdqtool.models.running.own_support import Split
from qdqtool.models.transforms.taps import READABLE_AS
from qdqtool.numerics.dtypes import Array

Known = dict[str, Array]
"""Tensors of one sample, by name."""


@dataclass(slots=True, eq=False)
class SamplePair:
    """The tensors of one sample in both models: one mapping for both as long as nothing differs.

    Attributes:
        exact: In the float model.
        rounded: In the copy.
    """

    exact: Known
    rounded: Known

    def drop(self, names: Iterable[str]) -> None:
        """Forget tensors."""
        for name in names:
            self.exact.pop(name, None)
            self.rounded.pop(name, None)

    @property
    def bytes(self) -> int:
        """The memory that the tensors take, those counted once that both share."""
        arrays = {id(array): array for known in (self.exact, self.rounded) for array in known.values()}
        return sum(array.nbytes for array in arrays.values())


@dataclass(frozen=True, slots=True, eq=False)
class _Replaced:
    """A weight that the copy reads in place of another."""

    slot: Slot
    values: Array


@dataclass(slots=True, eq=False)
class PartRuns:
    """Runs of the parts of one model.

    Args:
        index: The float model; ONNX Runtime runs all of it.
    """

    index: ModelIndex
    _replaced: dict[tuple[NodeKey, int], _Replaced] = field(default_factory=dict)

    def can_exchange(self, names: Iterable[str]) -> bool:
        """Return whether tensors can be handed from one part to the next: arrays of types that NumPy has."""
        values = self.index.view.main.values
        types = [self.index.elem_type(values[name]) if name in values else None for name in names]
        return all(found and found not in READABLE_AS for found in types)

    def replace(self, slot: Slot, values: Array) -> None:
        """Let the uses of a weight of the main graph read other values in the copy, until their parts were run."""
        for use in slot.uses or ():
            self._replaced[use.node, use.index] = _Replaced(slot, values)

    def run(self, part: Part, samples: Sequence[SamplePair]) -> None:
        """Run a part on all samples in both models, once; what later parts read is added to each sample.

        Raises:
            QdqError: ONNX Runtime refuses the part, or fails on a sample.
        """
        nodes, constants = self._copied(part.nodes)
        for sample in samples:
            if constants and sample.rounded is sample.exact:
                sample.rounded = dict(sample.exact)
        self._run(part.nodes, part.kept, (), [sample.exact for sample in samples])
        self._run(nodes, part.kept, constants, [each.rounded for each in samples if each.rounded is not each.exact])

    def _copied(self, nodes: Sequence[onnx.NodeProto]) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        """Return the nodes of the copy, with the weights that they read in place of others."""
        copies: list[onnx.NodeProto] = []
        weights: dict[str, onnx.TensorProto] = {}
        for node in nodes:
            # Taken out: the values of all weights of a model would be its size in float32.
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
        """Return a name for the replacement of a slot that no tensor of the main graph has."""
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
        split = Split({}, frozenset(), types, self.index)
        segment = segment_model(self.index.model, split, Stage(list(nodes), needed=kept), samples[0])
        segment.model.proto.graph.initializer.extend(constants)
        with Session(segment.model, Profile.DEPLOYED) as session:
            for known in samples:
                known.update(session.run({name: known[name] for name in segment.inputs}))
