"""Make a quantized operator or tensor float again."""

from functools import partial

from qdqtool.graph.index.qdq import QdqNode
from qdqtool.rules.fixes.bounded import bounded_source
from qdqtool.rules.fixes.stored import stored
from qdqtool.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.rules.support.reach import Operand, Product
from qdqtool.rules.support.rule_context import RuleContext

FLOAT_LAYER = Offer("unsafe", "takes the pairs in front of the operator away, and stores its weight as float")
FLOAT_TENSOR = Offer("unsafe", "takes the pair away")


def float_layer(product: Product) -> Fix:
    """Return the fix that lets an operator read the tensors in front of its pairs, and its weight as float."""
    return Fix(FLOAT_LAYER, "lets the operator read float tensors", partial(_layer, product))


def float_tensor(entry: QdqNode) -> Fix:
    """Return the fix that lets all readers of a DQ read the tensor in front of its Q."""
    return Fix(FLOAT_TENSOR, "lets what reads the pair read the tensor in front of it", partial(_tensor, entry))


def source_of(context: RuleContext, entry: QdqNode) -> str:
    """Return the name of the float tensor in front of the Q of a DQ.

    Raises:
        UnfitError: There is none, or its type is not that of the DQ's output.
    """
    quantizer = context.qdq.quantizer_of(entry)
    if quantizer is None or quantizer.data is None:
        raise UnfitError("there is no float tensor that could be read instead")
    if context.elem_type(quantizer.data) != context.elem_type(entry.output):
        raise UnfitError("the pair changes the type of the tensor")
    name = quantizer.node.input_name(0)
    if entry.node.scope.resolve(name) is not quantizer.data:
        raise UnfitError(f"'{name}' cannot be read here")
    return name


def float_source(draft: Draft, entry: QdqNode) -> str:
    """Return what to read in place of a DQ: :func:`source_of`, with a Relu or Clip where its Q did the work of one."""
    name, quantizer = source_of(draft.context, entry), draft.context.qdq.quantizer_of(entry)
    return bounded_source(draft, quantizer, name) if quantizer is not None else name


def _layer(product: Product, draft: Draft) -> None:
    for index, side in ((0, product.left), (product.weight_index, product.right)):
        if side is not None:
            draft.set_input(product.node, index, _operand(draft, side, product))


def _operand(draft: Draft, side: Operand, product: Product) -> str:
    entry = side.dequantize
    if side.between:
        raise UnfitError("other operators stand between the pair and its reader")
    if not draft.context.qdq.is_weight(entry):
        return float_source(draft, entry)
    constant = stored(draft.context, entry)
    return draft.weights(product.node.scope, f"{constant.name}_float", constant.like, constant.reals)


def _tensor(entry: QdqNode, draft: Draft) -> None:
    if entry.output is None:
        raise UnfitError("nothing reads it")
    draft.replace(entry.output, float_source(draft, entry))
