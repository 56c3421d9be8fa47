"""Move per-axis scales of a weight to the axis that kernels support."""

from functools import partial

from qdqtool.graph.index.qdq import QdqNode
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.granularity import PerAxis
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.rules.fixes.stored import stored, write_parameters
from qdqtool.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.rules.support.reach import Product
from qdqtool.rules.support.rule_context import RuleContext

REQUANTIZED = Offer("unsafe", "quantizes the weight again, on the output-channel axis")


def axis_fixes(context: RuleContext, product: Product, wanted: int) -> tuple[Fix, ...]:
    """Return the fix that moves the scales to the axis of the stored weight that is axis ``wanted`` of the operand."""
    axis = _axis_of(context, product, wanted)
    if axis is None or product.right is None:
        return ()
    entry = product.right.dequantize
    return (Fix(REQUANTIZED, f"quantizes the weight again on axis {axis}", partial(_requantize, entry, axis)),)


def _axis_of(context: RuleContext, product: Product, wanted: int) -> int | None:
    assert product.right is not None
    shape = context.data_shape(product.right.dequantize) or ()
    places = (axis for axis in range(len(shape)) if product.right.axis_here(axis, len(shape)) == wanted)
    return next(places, None)


def _requantize(entry: QdqNode, axis: int, draft: Draft) -> None:
    sharing = [each for each in draft.context.products if each.right is not None and each.right.dequantize is entry]
    if {_axis_of(draft.context, each, _wanted(draft.context, each)) for each in sharing} != {axis}:
        raise UnfitError("its consumers want different axes")
    constant = stored(draft.context, entry)
    scheme = QuantScheme(constant.format, PerAxis(axis))
    params = scale_from_tensor(constant.reals(), scheme, ScaleRule(dtype=constant.parameters.scale.dtype))
    draft.set_input(entry.node, 0, constant.write_codes(draft, params))
    write_parameters(draft, entry, params)
    draft.set_attribute(entry.node, "axis", axis)


def _wanted(context: RuleContext, product: Product) -> int:
    assert product.right is not None
    rank = len(context.data_shape(product.right.dequantize) or ())
    wanted = product.op.weight_axis(product.node, rank)
    return -1 if wanted is None else wanted
