"""QL302: operators with only one quantized operand."""

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from qdqtool.linting.rules.fixes.unquantize import FLOAT, float_fix, float_source
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.reach import Operand, Product
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Faults, Impact, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import Array, RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.view import Value
from qdqtool.models.graph.io.tensors import read_array
from qdqtool.models.targets import Target
from qdqtool.numerics import formats
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import REAL_TYPES
from qdqtool.numerics.granularity import Granularity, PerAxis, PerTensor
from qdqtool.numerics.groups import scale_on_grid
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantScheme

QUANTIZED = Offer("unsafe", "quantizes the float weight, with a scale for each output channel")
UNPAIRED = Offer("unsafe", "lets the operator read the float tensor in front of the pair")
ON_GRID = Offer("safe", "stores a float weight as codes and scales, if each value is already a code times a scale")

CHOSEN = Impact("info", "fallback")

SOME_ROUNDINGS = 2.0**-21
"""Largest relative distance of a weight value from its quantization grid. An exporter that folds BatchNormalization
into a quantized weight moves the values by some float32 roundings."""

_FORMATS: dict[int | None, str] = {
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
    TensorProto.FLOAT8E4M3FN: "float8e4m3fn",
}
"""The format of the weight for each type of the activation."""


class OneSided(Rule):
    """Both operands of a Conv, Gemm or MatMul are quantized, or neither, or only the weight of a Gemm or MatMul.

    Why it matters: int8 and fp8 kernels need both operands in that type. If one operand is float, the layer runs in
    float, and the pair only costs time and accuracy.

    Bad: a pair on the input of a Conv whose weight stays float.

    Good: a pair on both operands. Weight-only quantization of a MatMul is fine: the stored weight is small. In a model
    without quantized activations, a Conv with a quantized weight gets severity info: the file is smaller, and the layer
    runs in float.
    """

    code = "QL302"
    name = "placement.one-sided"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "put a pair on the other operand too, or remove this one"
    offers = (FLOAT, ON_GRID, QUANTIZED, UNPAIRED)
    VALID = examples("""
        activation and weight:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (xd, wd)
            }
        the weight of a MatMul alone:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        a Conv with a float weight:
            agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) <float s = {0.1}, int8 z = {0}, float[1,1,1,1] w = {0.5}> {
                $PAIR_TO_XD
                [c] y = Conv (xd, w)
            }
        a Conv with a float activation:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}, float s = {0.1}, int8 z = {0}> {
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                [c] c = Conv (x, wd)
                q = QuantizeLinear (c, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the two operands of each weighted operator."""
        has_activations = any(not context.qdq.is_weight(entry) for entry in context.qdq.dequantizers())
        for product in context.products:
            if (product.left is None) != (product.right is None) and not _weight_only(context, product):
                order = (0, product.weight_index)
                quantized, other = order if product.left is not None else reversed(order)
                # Where no activation has a pair, weights alone were chosen: --quantize-mode int8-weight-only.
                chosen = not has_activations and _is_of_weight(context, product)
                pair, without = _side(context, product, quantized), _side(context, product, other)
                yield Fault(
                    message=f"{pair} is quantized, {without} is not",
                    node=product.node,
                    tensor=product.node.input(other),
                    found="one operand quantized",
                    expected="both or neither",
                    impact=CHOSEN if chosen else None,
                    fixes=() if chosen else pairing_fixes(context, product),
                )


def _weight_only(context: RuleContext, product: Product) -> bool:
    return product.op.is_matrix_product and _is_of_weight(context, product)


def _is_of_weight(context: RuleContext, product: Product) -> bool:
    """Return whether the one quantized operand is a weight."""
    found = product.left or product.right
    return found is not None and context.qdq.is_weight(found.dequantize)


def _side(context: RuleContext, product: Product, index: int) -> str:
    node, found = product.node, product.right if index else product.left
    value = node.input(index)
    constant = context.qdq.is_weight(found.dequantize) if found else value is not None and context.is_constant(value)
    return f"the {'weight' if constant else 'activation'} '{node.input_name(index)}'"


def pairing_fixes(context: RuleContext, product: Product) -> tuple[Fix, ...]:
    """Return the fixes for an operator with one quantized operand: a second pair, or no pair."""
    found = product.left or product.right
    assert found is not None
    index = 0 if product.left is not None else product.weight_index
    if context.qdq.is_weight(found.dequantize):
        return (float_fix(found.dequantize),)
    unpaired = UNPAIRED.fix(f"removes the pair from input {index}", _bypass, product, index, found)
    weight = product.node.input(product.weight_index)
    name = _FORMATS.get(found.dequantize.quantized_type)
    if weight is None or name is None or context.constants.direct(weight) is None:
        return (unpaired,)
    fmt = formats.get(name)
    add = product, weight, fmt
    on_grid = ON_GRID.fix(f"stores the weight '{weight.name}' as {fmt} codes", _add, *add, _exact_scale)
    quantized = QUANTIZED.fix(f"quantizes the weight '{weight.name}' to {fmt}", _add, *add, _range_scale)
    return on_grid, quantized, unpaired


def _bypass(product: Product, index: int, found: Operand, draft: Draft) -> None:
    if found.between:
        raise UnfitError("other operators stand between the pair and its reader")
    draft.set_input(product.node, index, float_source(draft, found.dequantize, [product.node]))


_Derive = Callable[[Array, QuantScheme], Array]


def _range_scale(values: Array, scheme: QuantScheme) -> Array:
    found = scale_on_grid(values, scheme.format, scheme.granularity, tolerance=SOME_ROUNDINGS)
    if found is not None:
        return found
    return scale_from_tensor(values, scheme, ScaleRule(dtype=values.dtype)).scale


def _exact_scale(values: Array, scheme: QuantScheme) -> Array:
    found = scale_on_grid(values, scheme.format, scheme.granularity)
    if found is None:
        raise UnfitError(f"the weight does not consist of {scheme.format} codes times scales")
    return found


def _add(product: Product, weight: Value, fmt: NumberFormat, derive: _Derive, draft: Draft) -> None:
    tensor = draft.context.constants.direct(weight)
    assert tensor is not None
    axis = product.op.weight_axis(product.node, len(tensor.dims))
    granularity: Granularity = PerTensor() if axis is None else PerAxis(axis)
    values = read_array(draft.context.model, tensor)
    if values.dtype not in REAL_TYPES:
        raise UnfitError(f"the weight is {kind(tensor.data_type)}")
    scale = derive(values, QuantScheme(fmt, granularity))
    model, scope = draft.context.model, product.node.scope

    def make() -> Array:
        return quantize(read_array(model, tensor), scale, fmt, granularity)

    like = shaped(tensor, fmt.onnx_type)
    names = (
        draft.weights(scope, f"{weight.name}_quantized", like, make),
        draft.constant(scope, f"{weight.name}_scale", scale),
        draft.constant(scope, f"{weight.name}_zero_point", np.zeros(scale.shape, fmt.dtype)),
    )
    output = draft.add(product.node, "DequantizeLinear", names, weight.name, axis=axis)
    draft.set_input(product.node, product.weight_index, output)
