"""Find the tensors at which a change of a model must show: outputs of the nodes that read what was changed.

The outputs of a model may hide a change. A classifier whose Softmax is saturated gives the same bits for every input,
whatever happens to a scale inside. What the next operators make of the changed tensors hides nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.qdq import is_qdq
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.transforms.taps import TensorKey, tensor_key

MAX_PLACES = 64
"""Largest number of tensors that are compared for one batch of changes."""


@dataclass(frozen=True, slots=True)
class Place:
    """A tensor of both models, next to a change.

    Attributes:
        key: Its scope and name.
        readers: The outputs of the operators that read it. Where these are all equal, the tensor itself may differ: a
            pair moved from one side of a Relu to the other.
    """

    key: TensorKey
    readers: tuple[TensorKey, ...]

    @property
    def keys(self) -> tuple[TensorKey, ...]:
        """All tensors that are compared."""
        return self.key, *self.readers


def changed_places(before: ModelIndex, after: ModelIndex) -> tuple[Place, ...]:
    """Return the places next to every node that one model has and the other has not, at most :data:`MAX_PLACES`.

    A constant that changed has another name, and so its readers changed: no edit changes one in place.
    """
    known = {(node.scope.path, node.proto.SerializeToString(deterministic=True)) for node in before.view.nodes()}
    old = _FloatTensors(before)
    found: dict[TensorKey, Place] = {}
    for node in after.view.nodes():
        if (node.scope.path, node.proto.SerializeToString(deterministic=True)) in known:
            continue
        for affected in [node] if _computes(node, after) else _next_operators(node, after):
            for value in affected.present_outputs:
                if value in old and len(found) < MAX_PLACES:
                    readers = [each for reader in _next_operators(affected, after) for each in reader.present_outputs]
                    keys = tuple(tensor_key(each) for each in readers if each in old)
                    found[tensor_key(value)] = Place(tensor_key(value), keys)
    return tuple(found.values())


class _FloatTensors:
    """The float tensors that operators of a model make, by scope and name, with the operator."""

    def __init__(self, index: ModelIndex) -> None:
        self._makers = {
            tensor_key(value): (node.domain, node.op_type)
            for node in index.view.nodes()
            if _computes(node, index)
            for value in node.present_outputs
            if _is_activation(value, index)
        }

    def __contains__(self, value: Value) -> bool:
        """Whether an operator of the same name makes a float tensor of the same name."""
        maker = value.producer
        return maker is not None and self._makers.get(tensor_key(value)) == (maker.domain, maker.op_type)


def _computes(node: NodeView, index: ModelIndex) -> bool:
    """Return whether a node makes floats of activations, and is neither Q nor DQ."""
    # What stands between Q and DQ is passed by: the same values may have other codes. So is what only constants reach,
    # such as the Transpose of a weight: no run reads it, and what it changes shows at the operator that reads it.
    return not is_qdq(node) and any(_is_activation(value, index) for value in node.present_outputs)


def _is_activation(value: Value, index: ModelIndex) -> bool:
    return index.is_float(value) and not index.constants.is_constant(value)


def _next_operators(node: NodeView, index: ModelIndex) -> Iterator[NodeView]:
    """Yield the operators on floats that read the outputs of a node, through Q, DQ and what moves codes."""
    pending, seen = [node], {node}
    while pending:
        for value in pending.pop().present_outputs:
            for use in value.uses:
                if use.node in seen:
                    continue
                seen.add(use.node)
                if _computes(use.node, index):
                    yield use.node
                else:
                    pending.append(use.node)
