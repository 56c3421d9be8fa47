"""Quantize the other operand of a product as well, or none."""

from functools import partial

import numpy as np
from onnx import TensorProto

from qdqtool import formats
from qdqtool.graph.index.view import Value
from qdqtool.graph.io.tensors import read_array
from qdqtool.numerics.affine import quantize
from qdqtool.numerics.derive import ScaleRule, scale_from_tensor
from qdqtool.numerics.dtypes import REAL_TYPES
from qdqtool.numerics.granularity import Granularity, PerAxis, PerTensor
from qdqtool.numerics.number_format import NumberFormat
from qdqtool.numerics.scheme import QuantScheme
from qdqtool.rules.fixes.float_constant import FLOAT, float_fix
from qdqtool.rules.fixes.unquantize import float_source
from qdqtool.rules.support.fix import Draft, Fix, Offer, UnfitError, shaped
from qdqtool.rules.support.reach import Operand, Product
from qdqtool.rules.support.rule_context import Array, RuleContext
from qdqtool.rules.support.words import kind

QUANTIZED = Offer("unsafe", "quantizes the float weight, with a scale for each output channel")
UNPAIRED = Offer("unsafe", "lets the operator read the float tensor in front of the pair")
OFFERS = (FLOAT, QUANTIZED, UNPAIRED)

_FORMATS: dict[int | None, str] = {
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
    TensorProto.FLOAT8E4M3FN: "float8e4m3fn",
}
"""The format of the weight for each type of the activation."""


def pairing_fixes(context: RuleContext, product: Product) -> tuple[Fix, ...]:
    """Return the fixes for an operator with one quantized operand: a second pair, or no pair."""
    found = product.left or product.right
    assert found is not None
    index = 0 if product.left is not None else product.weight_index
    if context.qdq.is_weight(found.dequantize):
        return (float_fix(found.dequantize),)
    unpaired = Fix(UNPAIRED, f"takes the pair away from input {index}", partial(_bypass, product, index, found))
    weight = product.node.input(product.weight_index)
    name = _FORMATS.get(found.dequantize.quantized_type)
    if weight is None or name is None or context.constants.direct(weight) is None:
        return (unpaired,)
    fmt = formats.get(name)
    quantized = Fix(QUANTIZED, f"quantizes the weight '{weight.name}' to {fmt}", partial(_add, product, weight, fmt))
    return quantized, unpaired


def _bypass(product: Product, index: int, found: Operand, draft: Draft) -> None:
    if found.between:
        raise UnfitError("other operators stand between the pair and its reader")
    draft.set_input(product.node, index, float_source(draft, found.dequantize, [product.node]))


def _add(product: Product, weight: Value, fmt: NumberFormat, draft: Draft) -> None:
    tensor = draft.context.constants.direct(weight)
    assert tensor is not None
    axis = product.op.weight_axis(product.node, len(tensor.dims))
    granularity: Granularity = PerTensor() if axis is None else PerAxis(axis)
    values = read_array(draft.context.model, tensor)
    if values.dtype not in REAL_TYPES:
        raise UnfitError(f"the weight is {kind(tensor.data_type)}")
    params = scale_from_tensor(values, QuantScheme(fmt, granularity), ScaleRule(dtype=values.dtype))
    model, scope = draft.context.model, product.node.scope

    def make() -> Array:
        return quantize(read_array(model, tensor), params.scale, fmt, granularity)

    like = shaped(tensor, fmt.onnx_type)
    names = (
        draft.weights(scope, f"{weight.name}_quantized", like, make),
        draft.constant(scope, f"{weight.name}_scale", params.scale, tensor.data_type),
        draft.constant(scope, f"{weight.name}_zero_point", np.zeros(params.scale.shape, fmt.dtype), fmt.onnx_type),
    )
    attributes = {} if axis is None else {"axis": axis}
    output = draft.add(product.node, "DequantizeLinear", names, weight.name, **attributes)
    draft.set_input(product.node, product.weight_index, output)
