"""From a stored constant behind a DQ to the float constant that it stands for."""

from functools import partial

from qdqtool.graph.index.qdq import QdqNode
from qdqtool.rules.fixes.stored import stored
from qdqtool.rules.support.fix import Draft, Fix, Offer, UnfitError

FLOAT = Offer("safe", "stores the float values that the DQ makes")


def float_fix(entry: QdqNode) -> Fix:
    """Store what a DQ of a constant makes, and read that in its place."""
    return Fix(FLOAT, "stores the dequantized values as float", partial(_store, entry))


def _store(entry: QdqNode, draft: Draft) -> None:
    if entry.output is None:
        raise UnfitError("nothing reads it")
    constant = stored(draft.context, entry)
    name = draft.weights(entry.node.scope, f"{constant.name}_float", constant.like, constant.reals)
    draft.replace(entry.output, name)
