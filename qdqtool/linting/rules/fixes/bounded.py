"""Read the tensor in front of a Q, with a Relu or Clip where the range of the Q did the work of one."""

from qdqtool.linting.rules.support.fix import Draft, UnfitError
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, UnknownBoundsError, imposed_bounds
from qdqtool.models.transforms.restored_bounds import clipping_edits, operator_for


def bounded_source(draft: Draft, quantizer: QdqNode, name: str) -> str:
    """Return what to read in place of the pair of a Q: ``name``, or what a new Relu or Clip makes of it.

    Args:
        draft: The edits.
        quantizer: The Q.
        name: The tensor that it reads.

    Raises:
        UnfitError: The Q may do the work of a Relu or Clip, and its constants do not tell which.
    """
    try:
        bounds = imposed_bounds(quantizer, draft.context.index)
    except UnknownBoundsError as reason:
        raise UnfitError(f"'{quantizer.node.label}' may do the work of a Relu or Clip: {reason}") from None
    if bounds == NO_BOUNDS:
        return name
    elem_type = draft.context.elem_type(quantizer.data)
    if not (elem_type or bounds.is_relu):
        raise UnfitError(f"the type of '{name}' is unknown, so that it cannot be clipped")
    limits = bounds.low, bounds.high
    made = draft.namer.tensor(f"{name}_{operator_for(limits)}_Output")
    draft.edits += clipping_edits(draft.namer, quantizer.node.scope, (name, made), limits, elem_type or 0)
    return made
