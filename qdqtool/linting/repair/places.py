"""Find the tensors that show the effect of a change: outputs of the nodes that read the changed tensors.

The outputs of a model may hide a change. A classifier whose Softmax is saturated gives the same bits for every input,
even if a scale inside the model changes. The outputs of the next operators show such a change.
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
    """A tensor next to a change that exists in both models.

    Attributes:
        key: Scope and name of the tensor.
        readers: The outputs of the operators that read the tensor. The tensor itself may differ if all of these are
            equal, for example if a pair was moved across a Relu.
    """

    key: TensorKey
    readers: tuple[TensorKey, ...]

    @property
    def keys(self) -> tuple[TensorKey, ...]:
        """All tensors that are compared."""
        return self.key, *self.readers


def changed_places(before: ModelIndex, after: ModelIndex) -> tuple[Place, ...]:
    """Return the places next to every node that only ``after`` has, at most :data:`MAX_PLACES`.

    A changed constant has a new name, so its readers are such nodes too.
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
    """The float tensors of a model by scope and name, each with the operator that makes it."""

    def __init__(self, index: ModelIndex) -> None:
        self._makers = {
            tensor_key(value): (node.domain, node.op_type)
            for node in index.view.nodes()
            if _computes(node, index)
            for value in node.present_outputs
            if _is_activation(value, index)
        }

    def __contains__(self, value: Value) -> bool:
        """Whether this model has a float tensor with the same name, made by an operator of the same type."""
        maker = value.producer
        return maker is not None and self._makers.get(tensor_key(value)) == (maker.domain, maker.op_type)


def _computes(node: NodeView, index: ModelIndex) -> bool:
    """Return whether a node makes float activations, and is neither Q nor DQ."""
    # Nodes between Q and DQ are skipped: the same values may have other codes. Nodes with only constant inputs, such as
    # the Transpose of a weight, are skipped too: a change there shows at the operator that reads their output.
    return not is_qdq(node) and any(_is_activation(value, index) for value in node.present_outputs)


def _is_activation(value: Value, index: ModelIndex) -> bool:
    return index.is_float(value) and not index.constants.is_constant(value)


def _next_operators(node: NodeView, index: ModelIndex) -> Iterator[NodeView]:
    """Yield the next operators on floats after a node, across Q, DQ and operators that move codes."""
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
