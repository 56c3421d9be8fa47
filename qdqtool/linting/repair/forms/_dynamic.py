"""Recognize data that DynamicQuantizeLinear quantizes at run time, and the products of such data."""

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.linting.repair.forms._chain import next_node, result_of
from qdqtool.linting.rules import Draft, RuleContext, UnfitError
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.numerics.dtypes import Array

CODES = (TensorProto.INT8, TensorProto.UINT8)


def float_data(codes: Value | None, scale: Value | None, zero_point: Value | None) -> Value:
    """Return the float tensor that a DynamicQuantizeLinear quantizes.

    Args:
        codes: The codes.
        scale: The scale of the codes; None to accept any scale.
        zero_point: The zero point of the codes.

    Raises:
        UnfitError: The arguments are not the outputs of one DynamicQuantizeLinear.
    """
    maker = codes.producer if codes is not None else None
    if maker is None or not maker.is_op("DynamicQuantizeLinear") or codes is not maker.output(0):
        raise UnfitError("its data is not quantized at run time by DynamicQuantizeLinear")
    if zero_point is None or zero_point is not maker.output(2) or (scale is not None and scale is not maker.output(1)):
        raise UnfitError("the scale or zero point of its data differs from that of the DynamicQuantizeLinear")
    data = maker.input(0)
    if data is None:
        raise UnfitError("its data is missing")
    return data


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """The nodes after a product of codes: a Cast, and the Muls by the scales."""

    scale: Array
    nodes: tuple[NodeView, ...]
    result: Value


def scaled(context: RuleContext, node: NodeView, data: Value) -> Scaled:
    """Return the nodes after a product of codes.

    Raises:
        UnfitError: The product is not followed by these nodes, or other nodes read a tensor between them.
    """
    codes = node.input(0)
    assert codes is not None
    assert codes.producer is not None
    dynamic = codes.producer.output(1)
    cast = next_node(node)
    if not cast.is_op("Cast") or cast.attribute("to") != context.elem_type(data):
        raise UnfitError("no Cast to the type of the data follows")
    nodes, factors, has_dynamic = [cast], list[Array](), False
    while not (has_dynamic and factors):
        mul = next_node(nodes[-1])
        if not mul.is_op("Mul"):
            raise UnfitError("no Mul by the scales follows")
        for value in _factors(mul, nodes[-1].output()):
            has_dynamic = has_dynamic or value is dynamic
            array = None if value is dynamic else context.array(value)
            if array is None and value is not dynamic:
                raise UnfitError("a Mul behind it multiplies by other values than the scales")
            factors += [array] if array is not None else []
        nodes.append(mul)
    scale: Array = np.asarray(np.multiply.reduce(np.broadcast_arrays(*factors)), factors[0].dtype)
    return Scaled(scale, tuple(nodes), result_of(nodes[-1]))


def _factors(mul: NodeView, product: Value | None) -> list[Value | None]:
    """Return by which tensors a Mul multiplies the product: its other operand, or the two factors of that operand."""
    (other,) = [value for value in (mul.input(0), mul.input(1)) if value is not product] or [None]
    maker = other.producer if other is not None else None
    return [maker.input(0), maker.input(1)] if maker is not None and maker.is_op("Mul") else [other]


def dequantized(draft: Draft, node: NodeView, zero_point: int, scale: Array, op_type: str) -> str:
    """Add a DQ of the stored codes at input 1 of a product; return the name of its output.

    Args:
        draft: The edits.
        node: The product.
        zero_point: Index of the input with the weight's zero point.
        scale: The scale of the weight, by which the product is multiplied.
        op_type: The float operator.

    Raises:
        UnfitError: The weight is not stored, or its scales or zero points are not legal for a DQ.
    """
    context, codes = draft.context, node.input(1)
    tensor = context.constants.direct(codes) if codes is not None else None
    zero = context.array(node.input(zero_point))
    if codes is None or tensor is None or tensor.data_type not in CODES:
        raise UnfitError("its weight is not stored as 8-bit codes")
    if scale.dtype != np.float32:
        raise UnfitError("the scale of its weight is not float32")
    if zero is None and node.input_name(zero_point):
        raise UnfitError("the zero point of its weight is not constant")
    zero = np.zeros((), onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)) if zero is None else zero
    axis = _axis(scale, zero, tuple(tensor.dims), op_type)
    if axis is not None and node.scope.opset < FIRST_OPSET_WITH_AXIS:
        raise UnfitError(f"opset {node.scope.opset} has no DQ with several scales")
    shape = () if axis is None else (tensor.dims[axis],)
    constants = (
        draft.constant(node.scope, f"{codes.name}_scale", _spread(scale, shape)),
        draft.constant(node.scope, f"{codes.name}_zero_point", _spread(zero, shape), tensor.data_type),
    )
    return draft.add(node, "DequantizeLinear", (node.input_name(1), *constants), codes.name, axis=axis)


def _spread(array: Array, shape: tuple[int, ...]) -> Array:
    return np.array(np.broadcast_to(array.reshape(-1) if shape else array.reshape(()), shape))


def _axis(scale: Array, zero: Array, shape: tuple[int, ...], op_type: str) -> int | None:
    """Return the axis of the weight along which scale or zero point vary, or None if both are one number."""
    axis = 0 if op_type == "Conv" else len(shape) - 1
    channels = shape[axis] if len(shape) > 1 else 1
    # The scale multiplies the output. Its channels are on axis 1 for a Conv, and on the last axis for a MatMul.
    behind = (channels, *[1] * (len(shape) - 2)) if op_type == "Conv" else (channels,)
    legal = {(), (1,), behind, (1, *behind) if op_type == "Conv" else behind}
    if scale.shape not in legal or zero.shape not in {(), (1,), (channels,)}:
        raise UnfitError("the scales or zero points of its weight must be one number, or one for each output channel")
    return None if scale.size == zero.size == 1 else axis
