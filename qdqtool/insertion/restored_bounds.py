"""Build the Relu or Clip that takes the place of a Q whose range did the work of one."""

import math
from dataclasses import dataclass

import numpy as np

from qdqtool.graph.edits.edit import AddInitializer, AddNode, Edit
from qdqtool.graph.edits.naming import Namer
from qdqtool.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.graph.index.qdq import QdqNode
from qdqtool.graph.index.view import NodeView
from qdqtool.graph.io.tensors import make_tensor
from qdqtool.ops.support.imposed_bounds import NO_BOUNDS, Bounds, UnknownBoundsError

OPSET_WITH_CLIP_INPUTS = 11
"""The first opset in which the bounds of a Clip are inputs; they are attributes before."""


@dataclass(frozen=True, slots=True)
class Restored:
    """One Relu or Clip that takes the place of a Q.

    Attributes:
        node: The Q.
        op_type: ``Relu`` or ``Clip``.
        bounds: What it passes.
        tensor: What it makes.
        edits: They add it.
    """

    node: NodeView
    op_type: str
    bounds: Bounds
    tensor: str
    edits: tuple[Edit, ...]


def check_restorable(quantizer: QdqNode, bounds: Bounds, index: ModelIndex) -> None:
    """Check that a Relu or Clip with these bounds can be written.

    Raises:
        UnknownBoundsError: The type of the bounds of a Clip is not known.
    """
    if bounds == NO_BOUNDS or bounds.is_relu:
        return
    if quantizer.data is None or index.types.elem_type(quantizer.data) not in FLOATS:
        raise UnknownBoundsError("it does the work of a Clip, and the type of its input is not known")


def restore(
    quantizer: QdqNode, bounds: Bounds, index: ModelIndex, namer: Namer, names: tuple[str, str | None]
) -> Restored:
    """Make the Relu or Clip in the scope of a Q.

    Args:
        quantizer: The Q.
        bounds: What it is to pass; :func:`check_restorable` has passed.
        index: The index of the model.
        namer: Chooses names.
        names: What it reads, and what its output is called; None to choose a name.
    """
    source, output = names
    scope, data = quantizer.node.scope, quantizer.data
    assert data is not None
    op_type = "Relu" if bounds.is_relu else "Clip"
    made = output or namer.tensor(f"{data.name}_{op_type}_Output")
    node = namer.node(f"{data.name}_{op_type}")
    given = {"min": bounds.low, "max": bounds.high} if op_type == "Clip" else {}
    given = {name: bound for name, bound in given.items() if math.isfinite(bound)}
    if scope.opset < OPSET_WITH_CLIP_INPUTS:
        edit = AddNode(scope.path, op_type, (source,), (made,), node, attributes=given)
        return Restored(quantizer.node, op_type, bounds, made, (edit,))
    constants = [
        make_tensor(namer.tensor(f"{data.name}_{name}"), np.array(bound), index.types.elem_type(data) or 0)
        for name, bound in given.items()
    ]
    by_name = dict(zip(given, (tensor.name for tensor in constants), strict=True))
    inputs = (source, by_name.get("min", ""), by_name.get("max", "")) if given else (source,)
    edits: tuple[Edit, ...] = (
        *(AddInitializer(scope.path, tensor) for tensor in constants),
        AddNode(scope.path, op_type, inputs, (made,), node),
    )
    return Restored(quantizer.node, op_type, bounds, made, edits)
