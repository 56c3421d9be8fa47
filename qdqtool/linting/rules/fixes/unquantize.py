"""Make a quantized operator, tensor or constant float again."""

from collections.abc import Iterable

from qdqtool.linting.rules.fixes.stored import stored
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.reach import Operand, Product
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.ops.support.imposed_bounds import NO_BOUNDS, UnknownBoundsError, imposed_bounds
from qdqtool.models.transforms.restored_bounds import clipping_edits, operator_for

FLOAT_LAYER = Offer("unsafe", "removes the pairs in front of the operator, and stores its weight as float")
FLOAT_TENSOR = Offer("unsafe", "removes the pair")


def float_layer(product: Product) -> Fix:
    """Return the fix that lets an operator read the tensors before its pairs, and its weight as float."""
    return FLOAT_LAYER.fix("lets the operator read float tensors", _layer, product)


def float_tensor(entry: QdqNode) -> Fix:
    """Return the fix that lets all readers of a DQ read the tensor before its Q."""
    return FLOAT_TENSOR.fix("connects the readers of the pair to the tensor in front of it", _tensor, entry)


def float_source(draft: Draft, entry: QdqNode, readers: Iterable[NodeView]) -> str:
    """Return the tensor that readers of a DQ can read instead of its output: the tensor before its Q.

    If the Q did the work of a Relu or Clip, a new Relu or Clip makes the tensor.

    Raises:
        UnfitError: There is no such tensor, its type is not the type of the DQ's output, or its name means another
            tensor in the graph of a reader.
    """
    context, quantizer = draft.context, draft.context.qdq.quantizer_of(entry)
    if quantizer is None or quantizer.data is None:
        raise UnfitError("there is no float tensor that could be read instead")
    if context.elem_type(quantizer.data) != context.elem_type(entry.output):
        raise UnfitError("the pair changes the type of the tensor")
    draft.require_visible(quantizer.data, readers)
    return bounded_source(draft, quantizer, quantizer.data.name)


def _layer(product: Product, draft: Draft) -> None:
    for index, side in ((0, product.left), (product.weight_index, product.right)):
        if side is not None:
            draft.set_input(product.node, index, _operand(draft, side, product))


def _operand(draft: Draft, side: Operand, product: Product) -> str:
    entry = side.dequantize
    if side.between:
        raise UnfitError("other operators stand between the pair and its reader")
    if not draft.context.qdq.is_weight(entry):
        return float_source(draft, entry, [product.node])
    constant = stored(draft.context, entry)
    return draft.weights(product.node.scope, f"{constant.name}_float", constant.like, constant.reals)


def _tensor(entry: QdqNode, draft: Draft) -> None:
    if entry.output is None:
        raise UnfitError("nothing reads it")
    draft.replace(entry.output, float_source(draft, entry, [use.node for use in entry.uses]))


def bounded_source(draft: Draft, quantizer: QdqNode, name: str) -> str:
    """Return the tensor to read instead of the pair of a Q: ``name``, or the output of a new Relu or Clip.

    Raises:
        UnfitError: The Q may do the work of a Relu or Clip, but its constants do not show which.
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


FLOAT = Offer("safe", "stores the float values that the DQ makes")


def float_fix(entry: QdqNode) -> Fix:
    """Return the fix that stores the dequantized constant for the readers of the DQ."""
    return FLOAT.fix("stores the dequantized values as float", _store_floats, entry)


def _store_floats(entry: QdqNode, draft: Draft) -> None:
    if entry.output is None:
        raise UnfitError("nothing reads it")
    constant = stored(draft.context, entry)
    name = draft.weights(entry.node.scope, f"{constant.name}_float", constant.like, constant.reals)
    draft.replace(entry.output, name)
