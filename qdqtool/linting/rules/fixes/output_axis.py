"""Move per-axis scales of a weight to the axis that kernels support."""

from functools import partial

import numpy as np

from qdqtool.linting.rules.fixes.stored import stored, write_parameters
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.granularity import PerAxis
from qdqtool.numerics.scheme import QuantScheme

REQUANTIZED = Offer("unsafe", "quantizes the weight again, on the output-channel axis")


def axis_fixes(context: RuleContext, product: Product, wanted: int) -> tuple[Fix, ...]:
    """Return the fix that moves the scales to the axis of the stored weight that is axis ``wanted`` of the operand."""
    assert product.right is not None
    axis = _axis_of(context, product, wanted)
    if axis is None:
        return ()
    entry = product.right.dequantize
    return (Fix(REQUANTIZED, f"quantizes the weight again on axis {axis}", partial(_requantize, entry, axis)),)


def _axis_of(context: RuleContext, product: Product, wanted: int | None) -> int | None:
    assert product.right is not None
    if wanted is None:
        return None
    shape = context.data_shape(product.right.dequantize) or ()
    places = (axis for axis in range(len(shape)) if product.right.axis_here(axis, len(shape)) == wanted)
    return next(places, None)


def _requantize(entry: QdqNode, axis: int, draft: Draft) -> None:
    context = draft.context
    constant = stored(context, entry)
    sharing = [each for each in context.products if each.right is not None and each.right.dequantize is entry]
    rank = len(constant.shape)
    if {_axis_of(context, each, each.op.weight_axis(each.node, rank)) for each in sharing} != {axis}:
        raise UnfitError("its consumers want different axes")
    values = constant.reals()
    # Unsigned codes of negative values need a zero point.
    symmetric = constant.format.low < 0 or not np.less(values, 0).any()
    scheme = QuantScheme(constant.format, PerAxis(axis), symmetric=symmetric)
    params = scale_from_tensor(values, scheme, ScaleRule(dtype=constant.parameters.scale.dtype))
    draft.set_input(entry.node, 0, constant.write_codes(draft, params))
    write_parameters(draft, entry, params)
    draft.set_attribute(entry.node, "axis", axis)
