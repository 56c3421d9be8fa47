"""Rewrite a product of cast codes that is multiplied by scales: move the scales into a DQ of the codes.

torchao exports int8 weights in this form: Cast of the codes [K, N], MatMul, Mul by the scales [N]. The result is the
same up to rounding: the scale is applied before the sum instead of after it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from onnx import TensorProto

from qdqtool.linting.repair.forms._chain import common_axis, fitting, next_node, other_operand
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics import formats
from qdqtool.numerics.dtypes import FLOAT32, Array

MOVED = Offer("unsafe", "moves the scales behind a product of codes into a DQ of the codes")

CODES = (TensorProto.INT8, TensorProto.INT4, TensorProto.FLOAT8E4M3FN)


@dataclass(frozen=True, slots=True, eq=False)
class _Product:
    """A product of cast codes.

    Attributes:
        codes: The stored codes.
        cast: The Cast of the codes.
        node: The MatMul.
        scaling: The Mul after the MatMul.
        scale: The scale, or one scale for each output channel.
        axis: The axis of the codes that has the output channels.
    """

    codes: Value
    cast: NodeView
    node: NodeView
    scaling: NodeView
    scale: Array
    axis: int


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every product of this form."""
    products = (node for node in context.nodes if node.is_op("MatMul"))
    for node, product in fitting(products, partial(_product, context)):
        yield node, MOVED.fix("moves the scales behind MatMul into a DQ of its weight", _write, product)


def _product(context: RuleContext, node: NodeView) -> _Product:
    maker, axis = _maker(node, node.input(1)), 1
    if maker.is_op("Transpose") and maker.attribute("perm", [1, 0]) == [1, 0]:
        maker, axis = _maker(maker, maker.input(0)), 0
    codes = maker.input(0)
    tensor = context.constants.direct(codes) if codes is not None else None
    if codes is None or tensor is None or tensor.data_type not in CODES or len(tensor.dims) != 2:
        raise UnfitError("its weight is not stored as a matrix of codes")
    if not maker.is_op("Cast") or maker.attribute("to") != TensorProto.FLOAT:
        raise UnfitError("the codes are not cast to float32")
    scaling = next_node(node)
    if not scaling.is_op("Mul"):
        raise UnfitError("no Mul by scales follows it")
    scale = other_operand(context, scaling, node.output())
    if scale.dtype != FLOAT32 or scaling.output() is None:
        raise UnfitError("the Mul behind it must multiply by constant float32 scales")
    return _Product(codes, maker, node, scaling, _of_channels(context, node, scale, tensor.dims[axis]), axis)


def _maker(reader: NodeView, value: Value | None) -> NodeView:
    """Return the node that makes a tensor, if only ``reader`` reads the tensor."""
    if value is None or value.producer is None or next_node(value.producer) is not reader:
        raise UnfitError("the weight must be the output of a node, with exactly one reader")
    return value.producer


def _of_channels(context: RuleContext, node: NodeView, scale: Array, channels: int) -> Array:
    """Return the scale of each output channel, or one number if all channels have the same scale."""
    shape = context.shape(node.output())
    if shape is None and scale.ndim <= 1 and scale.size in {1, channels}:
        return scale.reshape(-1)
    if shape is None or common_axis(scale, [], shape) not in {None, len(shape) - 1}:
        raise UnfitError("the scales must be one number, or one for each output channel")
    return scale.reshape(-1)


def _write(product: _Product, draft: Draft) -> None:
    context, node, name = draft.context, product.node, product.codes.name
    fmt = formats.by_onnx_type(context.elem_type(product.codes) or 0)
    result, cast = product.scaling.output(), product.cast.output()
    assert fmt is not None
    assert result is not None
    assert cast is not None
    draft.require_opset(node.scope, max(fmt.first_opset.dequantize or 0, FIRST_OPSET_WITH_AXIS))
    is_single = product.scale.size == 1
    stored = product.scale.reshape(() if is_single else -1)
    scale = draft.constant(node.scope, f"{name}_scale", stored)
    draft.rename_output(node, result.name)
    draft.remove(product.scaling)
    draft.remove(product.cast)
    axis = None if is_single else product.axis
    draft.place(node.scope, "DequantizeLinear", (name, scale), cast.name, axis=axis)
