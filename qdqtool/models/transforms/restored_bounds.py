"""Build the Relu or Clip that takes the place of a Q whose range did the work of one."""

from dataclasses import dataclass

from qdqtool.models.graph.edits.clipping import clipping_edits, operator_for
from qdqtool.models.graph.edits.edit import Edit
from qdqtool.models.graph.edits.naming import Namer
from qdqtool.models.graph.index.model_index import FLOATS, ModelIndex
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, Bounds, UnknownBoundsError


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
    data, limits = quantizer.data, (bounds.low, bounds.high)
    assert data is not None
    op_type = operator_for(limits)
    made = output or namer.tensor(f"{data.name}_{op_type}_Output")
    elem_type = index.types.elem_type(data) or 0
    edits = clipping_edits(namer, quantizer.node.scope, (source, made), limits, elem_type)
    return Restored(quantizer.node, op_type, bounds, made, edits)
