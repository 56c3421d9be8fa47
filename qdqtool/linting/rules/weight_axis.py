"""QA201: weight scales on an axis that no kernel supports."""

from contextlib import suppress

import numpy as np

from qdqtool.errors import ArgumentError
from qdqtool.linting.rules.fixes.stored import Stored, stored, write_parameters
from qdqtool.linting.rules.support.blocks import wrong_axis
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.reach import Product
from qdqtool.linting.rules.support.rule import ADVICE, FALLBACK, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import FLOAT64
from qdqtool.numerics.granularity import PerAxis
from qdqtool.numerics.noise import decibels
from qdqtool.numerics.scheme import QuantParams, QuantScheme

FLOAT_PRODUCT = "it is converted to float before the product"
FUSED = "an integer kernel of ONNX Runtime's optimizer would apply them to the output channels"

REQUANTIZED = Offer("unsafe", "quantizes the weight again, on the output-channel axis")


class WeightAxis(Rule):
    """The axis of per-axis weight scales is the output-channel axis of the operator.

    Why it matters: a kernel can move a scale out of a sum only if all products of the sum have the same scale. With
    scales on any other axis, the weight is converted to float, and the layer runs in float. The activation is rounded
    without benefit: the layer is slower and less accurate than without Q/DQ. No tool warns.

    ONNX allows any axis, and the weight is exact: it is converted to float before the product. But the optimizer of
    ONNX Runtime (1.31.1, on by default) replaces a MatMul, Gemm or Conv between pairs by an integer kernel. It ignores
    the axis. If the weight is square, the kernel applies each scale to other values, without a message. If not, the run
    may fail. A session without optimizations, such as that of `check`, computes the right values.

    Bad: a Conv weight with axis 1, which is also what an absent axis attribute means.

    Good: axis 0 for Conv; the last axis for MatMul; axis 1 for Gemm, or axis 0 with transB.
    """

    code = "QA201"
    name = "axis.weight"
    affects = impacts(onnx=ADVICE, ort_cpu=ADVICE, tensorrt=FALLBACK)
    remedy = "quantize the weight again on the output-channel axis (Conv 0, MatMul last, Gemm 1, Gemm with transB 0)"
    offers = (REQUANTIZED,)
    VALID = examples("""
        a Conv weight on axis 0:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                y = Conv (xd, wd)
            }
        axis 0 becomes the last one in a Transpose:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                wt = Transpose <perm = [1, 0]> (wd)
                y = MatMul (xd, wt)
            }
    """)
    INVALID = examples("""
        a Conv weight on axis 1:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                [c] y = Conv (xd, wd)
            }
        a MatMul weight on its rows:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                y = MatMul (xd, wd)
            }
        one pair for a MatMul and, transposed, for another:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                m = MatMul (xd, wd)
                mq = QuantizeLinear (m, s, z)
                md = DequantizeLinear (mq, s, z)
                wt = Transpose <perm = [1, 0]> (wd)
                y = MatMul (md, wt)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Follow each weight operand back to its DQ, and the axis through the Transposes between them."""
        for product in context.products:
            axes = wrong_axis(context, product)
            if axes is None:
                continue
            assert product.right is not None
            if not context.qdq.is_weight(product.right.dequantize):
                continue
            here, wanted = axes
            entry = product.right.dequantize
            shared = _other_reader(context, product)
            fits = f", which fits only {shared.node.op_type} '{shared.node.label}'" if shared is not None else ""
            of_weight = f"the weight of {product.node.op_type} '{product.node.label}'"
            is_wrong = target.family == "ort-cpu" and _is_fused(product)
            noise = f"; {FUSED}" if is_wrong else f"; {FLOAT_PRODUCT}{_noise(context, product, wanted)}"
            effect = "" if target.family == "tensorrt" else noise
            message = f"{of_weight} has its scales on axis {here}{fits}{effect}"
            fixes = axis_fixes(context, product, wanted) if shared is None else ()
            impact, expected = SUSPECT if is_wrong else None, f"axis {wanted}"
            yield Fault(message, entry.node, entry.data, found=str(here), expected=expected, impact=impact, fixes=fixes)


def _is_fused(product: Product) -> bool:
    """Return whether the optimizer of ONNX Runtime may make an integer kernel of a product and the DQs before it."""
    pairs = (product.left, product.right)
    is_integer = all(each is not None and kind(each.dequantize.quantized_type) in {"int8", "uint8"} for each in pairs)
    return is_integer and product.node.op_type in {"Conv", "Gemm", "MatMul"}


def _noise(context: RuleContext, product: Product, wanted: int) -> str:
    """Return how much more or less noise the rounding makes than with scales of output channels; empty if unknown."""
    assert product.right is not None
    axis = _axis_of(context, product, wanted)
    with suppress(UnfitError, ArgumentError):
        constant = stored(context, product.right.dequantize)
        if axis is not None and constant.format.kind == "integer":
            scales = constant.parameters.scale, _fitting(constant, axis).scale
            given, fitting = (np.square(each.astype(FLOAT64)).mean() for each in scales)
            found = float(decibels(given, fitting))
            more = "more" if found >= 0 else "less"
            return f", and its rounding makes {abs(found):.1f} dB {more} noise than on axis {wanted}"
    return ""


def _other_reader(context: RuleContext, product: Product) -> Product | None:
    """Return another operator that reads the same DQ and whose weight axis is right."""
    assert product.right is not None
    for other, index in context.readers_of_codes[product.right.dequantize]:
        if index and wrong_axis(context, other) is None:
            return other
    return None


def axis_fixes(context: RuleContext, product: Product, wanted: int) -> tuple[Fix, ...]:
    """Return the fix that quantizes the weight again, so that the scales are on axis ``wanted`` of the operand."""
    assert product.right is not None
    axis = _axis_of(context, product, wanted)
    if axis is None:
        return ()
    entry = product.right.dequantize
    return (REQUANTIZED.fix(f"quantizes the weight again on axis {axis}", _requantize, entry, axis),)


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
        raise UnfitError("its consumers need different axes")
    params = _fitting(constant, axis)
    draft.set_input(entry.node, 0, constant.write_codes(draft, params))
    write_parameters(draft, entry, params)
    draft.set_attribute(entry.node, "axis", axis)


def _fitting(constant: Stored, axis: int) -> QuantParams:
    """Return the parameters that hold the values of a constant, with scales on an axis."""
    values = constant.reals()
    # Negative values need a zero point in an unsigned format.
    symmetric = constant.format.low < 0 or not np.less(values, 0).any()
    scheme = QuantScheme(constant.format, PerAxis(axis), symmetric=symmetric)
    return scale_from_tensor(values, scheme, ScaleRule(dtype=constant.parameters.scale.dtype))
