"""Replace a DQ of a stored constant by the float constant."""

from functools import partial

from qdqtool.linting.rules.fixes.stored import stored
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.models.graph.index.qdq import QdqNode

FLOAT = Offer("safe", "stores the float values that the DQ makes")


def float_fix(entry: QdqNode) -> Fix:
    """Return the fix that stores the dequantized constant, for the readers of the DQ."""
    return Fix(FLOAT, "stores the dequantized values as float", partial(_store, entry))


def _store(entry: QdqNode, draft: Draft) -> None:
    if entry.output is None:
        raise UnfitError("nothing reads it")
    constant = stored(draft.context, entry)
    name = draft.weights(entry.node.scope, f"{constant.name}_float", constant.like, constant.reals)
    draft.replace(entry.output, name)
