"""The edits that add a Relu or a Clip with constant bounds."""

import math

import numpy as np

from qdqtool.models.graph.edits.edit import AddInitializer, AddNode, Edit
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.view import Scope
from qdqtool.models.graph.io.tensors import make_tensor

OPSET_WITH_CLIP_INPUTS = 11
"""The first opset in which the bounds of a Clip are inputs; they are attributes before."""


def clipping_edits(
    namer: Namer, scope: Scope, tensors: tuple[str, str], bounds: tuple[float, float], elem_type: int
) -> tuple[Edit, ...]:
    """Return the edits that add a node which limits a tensor: a Relu for the bounds 0 and infinity, else a Clip.

    Args:
        namer: Chooses names for the node and its constants.
        scope: Where.
        tensors: The tensor that the node reads, and the one that it makes.
        bounds: The smallest and the largest value that pass; infinite where there is no bound.
        elem_type: ``TensorProto.DataType`` of the tensor; a Relu does not need it.
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
    """Return ``Relu`` or ``Clip``, the operator that passes what is between two bounds."""
    return "Relu" if bounds == (0.0, math.inf) else "Clip"
