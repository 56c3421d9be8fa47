"""Build the Relu or Clip that replaces a Q, if the range of the Q had the same effect."""

import math
from dataclasses import dataclass

import numpy as np

from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, Edit
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Scope
from qdqtool.models.graph.io.tensors import make_tensor
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, ImposedBounds, UnknownBoundsError

OPSET_WITH_CLIP_INPUTS = 11
"""The first opset in which the bounds of a Clip are inputs. In earlier opsets they are attributes."""


def clipping_edits(
    namer: Namer, scope: Scope, tensors: tuple[str, str], bounds: tuple[float, float], elem_type: int
) -> tuple[Edit, ...]:
    """Return the edits that add a node to limit a tensor: a Relu for the bounds 0 and infinity, otherwise a Clip.

    Args:
        namer: Chooses names for the node and its constants.
        scope: The scope of the new node.
        tensors: The tensor that the node reads, and the tensor that it makes.
        bounds: The lower and the upper bound; infinite where there is no bound.
        elem_type: ``TensorProto.DataType`` of the tensor; not needed for a Relu.
    """
    source, output = tensors
    op_type = operator_for(bounds)
    node = namer.node(f"{source}_{op_type}")
    named = zip(("min", "max"), bounds, strict=True) if op_type == "Clip" else ()
    given = {name: float(bound) for name, bound in named if math.isfinite(bound)}
    if scope.opset < OPSET_WITH_CLIP_INPUTS or not given:
        return (AddNode(scope.path, op_type, (source,), (output,), node, attributes=given),)
    constants = {
        name: make_tensor(namer.tensor(f"{source}_{name}"), np.array(bound), elem_type) for name, bound in given.items()
    }
    inputs = [constants[name].name if name in constants else "" for name in ("min", "max")]
    stored = (AddInitializer(scope.path, tensor) for tensor in constants.values())
    return (*stored, AddNode(scope.path, op_type, (source, *inputs), (output,), node))


def operator_for(bounds: tuple[float, float]) -> str:
    """Return ``Relu`` or ``Clip``, the operator that limits values to these bounds."""
    return "Relu" if bounds == (0.0, math.inf) else "Clip"


@dataclass(frozen=True, slots=True)
class Restored:
    """A Relu or Clip that replaces a Q."""

    node: NodeView
    op_type: str
    bounds: ImposedBounds
    tensor: str
    edits: tuple[Edit, ...]


def check_restorable(quantizer: QdqNode, bounds: ImposedBounds, index: ModelIndex) -> None:
    """Check that a Relu or Clip with these bounds can be made.

    Raises:
        UnknownBoundsError: The type of the Q's input is unknown, and the bounds of a Clip need this type.
    """
    if bounds == NO_BOUNDS or bounds.is_relu:
        return
    if quantizer.data is None or index.types.elem_type(quantizer.data) not in FLOATS:
        raise UnknownBoundsError("it replaces a Clip, and the type of its input is not known")


def restore(
    quantizer: QdqNode, bounds: ImposedBounds, index: ModelIndex, namer: Namer, names: tuple[str, str | None]
) -> Restored:
    """Return the Relu or Clip that replaces a Q, in the scope of the Q.

    Args:
        quantizer: The Q.
        bounds: The bounds of the Q, which :func:`check_restorable` accepted.
        index: The index of the model.
        namer: Chooses names.
        names: The name of the tensor to read, and of the output; None to choose a name.
    """
    source, output = names
    data, limits = quantizer.data, (bounds.low, bounds.high)
    assert data is not None
    op_type = operator_for(limits)
    made = output or namer.tensor(f"{data.name}_{op_type}_Output")
    elem_type = index.types.elem_type(data) or 0
    edits = clipping_edits(namer, quantizer.node.scope, (source, made), limits, elem_type)
    return Restored(quantizer.node, op_type, bounds, made, edits)
