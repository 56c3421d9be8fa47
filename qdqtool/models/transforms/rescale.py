"""Move factors through joints, by edits: divide what makes a tensor by them, and multiply the weights that read it.

Products are taken in float64 and rounded once to the type of the weight, so the result of the model changes by
rounding only. Weights are rescaled when the model is saved, one at a time.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from qdqtool.models.graph.edits.edit import AddInitializer, Edit, SetInput
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.edits.surgeon import apply_edits
from qdqtool.models.graph.edits.unused import DeadCode
from qdqtool.models.graph.index.constants import Constants
from qdqtool.models.graph.index.model_index import ModelIndex
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.graph.io.tensors import make_tensor, nbytes, pending_tensor, read_array
from qdqtool.models.graph.model import Model, Transformed
from qdqtool.models.ops.support.weights import StoredWeight
from qdqtool.models.payload import Payload
from qdqtool.models.transforms.joints import Joint
from qdqtool.models.transforms.taps import TensorKey, tensor_key
from qdqtool.numerics.product import Factors

SUFFIX = "_rescaled"


@dataclass(slots=True, eq=False)
class WeightFactors:
    """The factors of one weight.

    Attributes:
        weight: The weight.
        inputs: What its input channels are multiplied with; None for nothing.
        outputs: What its output channels are divided by; None for nothing.
    """

    weight: StoredWeight
    inputs: Factors | None = None
    outputs: Factors | None = None


def rescale(index: ModelIndex, factors: Mapping[Joint, Factors]) -> Transformed[Mapping[TensorKey, Factors]]:
    """Divide the channels of tensors by factors, and multiply the weights that read them.

    Args:
        index: The index of the model that the joints were found in. Its model is not changed.
        factors: Positive, finite, one for each channel of the joint.

    Returns:
        The model, with the factors by which the channels of every tensor are divided that a reader reads.
    """
    model = index.model.fork()
    edits: list[Edit] = []
    namer, dead = Namer(index.view), DeadCode(index.view)
    for change in weight_factors(factors):
        edits += _new_weight(model, change, namer)
        dead.drop_use(change.weight.node, 1)
    for node, position, by in _vectors(factors):
        edits += _new_vector(index.constants, node, position, by, namer)
        dead.drop_use(node, position)
    return Transformed(apply_edits(model, edits + dead.edits()), _divided(factors))


def _divided(factors: Mapping[Joint, Factors]) -> dict[TensorKey, Factors]:
    return {
        tensor_key(reader.tensor): np.repeat(by, reader.repeat)
        for joint, by in factors.items()
        for reader in joint.readers
    }


def weight_factors(factors: Mapping[Joint, Factors]) -> tuple[WeightFactors, ...]:
    """Return the factors of every weight at these joints; most weights are between two joints."""
    found: dict[NodeView, WeightFactors] = {}
    for joint, by in factors.items():
        if joint.weight is not None:
            found.setdefault(joint.weight.node, WeightFactors(joint.weight)).outputs = by
        for reader in joint.readers:
            change = found.setdefault(reader.weight.node, WeightFactors(reader.weight))
            change.inputs = np.repeat(by, reader.repeat)
    return tuple(found.values())


def _vectors(factors: Mapping[Joint, Factors]) -> Iterator[tuple[NodeView, int, Factors]]:
    for joint, by in factors.items():
        for node, index in joint.vectors:
            yield node, index, by


def _new_weight(model: Model, change: WeightFactors, namer: Namer) -> list[Edit]:
    stored, node = change.weight.tensor, change.weight.node
    name = namer.tensor(f"{node.input_name(1)}{SUFFIX}")

    def make() -> bytes:
        values = change.weight.layout.rescaled(read_array(model, stored), change.inputs, change.outputs)
        return make_tensor(name, values, stored.data_type).raw_data

    tensor = pending_tensor(model, name, tuple(stored.dims), stored.data_type, Payload(nbytes(stored), make))
    return [AddInitializer(node.scope.path, tensor), SetInput(node.scope.path, node.key, 1, name)]


def _new_vector(constants: Constants, node: NodeView, position: int, by: Factors, namer: Namer) -> list[Edit]:
    value = node.input(position)
    stored, values = (constants.direct(value), constants.array(value)) if value is not None else (None, None)
    assert stored is not None
    assert values is not None
    name = namer.tensor(f"{node.input_name(position)}{SUFFIX}")
    return [
        AddInitializer(node.scope.path, make_tensor(name, values.astype(np.float64) / by, stored.data_type)),
        SetInput(node.scope.path, node.key, position, name),
    ]
