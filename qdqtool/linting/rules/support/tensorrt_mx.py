"""What TensorRT takes of MXFP8 at scales that are given, measured with TensorRT for RTX 1.7.1.

The parser reads TRT_MXFP8QuantizeLinear and TRT_MXFP8DequantizeLinear as the Q and DQ of ONNX.
"""

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.tensorrt_operands import (
    FLOAT,
    FP4,
    FP8,
    INT4,
    INT8,
    REAL,
    STORED_WORDS,
    Shape,
    Wrong,
    as_read,
    has_open_input,
    integer,
    is_stored,
    may_be_equal,
    real_data,
    real_result,
    same_type,
    type_of,
)
from qdqtool.linting.rules.support.words import dims, kind
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.tensorrt_operators import MX_DYNAMIC
from qdqtool.models.graph.index.view import NodeView


def mx_quantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_MXFP8QuantizeLinear."""
    data, value = type_of(context, node.input(0)), node.input(1)
    scale, made = type_of(context, value), integer(node, "output_dtype", 0) or FP8
    yield from real_data(context, node)
    if scale == TensorProto.UINT8 and made != FP8:
        yield Wrong(f"the type {kind(made)} at exponents of type uint8", kind(FP8))
    elif made not in {FP8, INT8, INT4, FP4}:
        yield Wrong(f"the type {kind(made)}", f"{kind(FP8)}, {kind(INT8)}, {kind(INT4)} or {kind(FP4)}")
    elif scale != TensorProto.UINT8 and made != INT8:
        yield from same_type("data", data, scale, or_float=made != FP4)
    yield from _mx_scale(context, node)
    if scale == TensorProto.UINT8 and value is not None and not is_stored(value):
        yield Wrong("exponents that are not stored", STORED_WORDS)


def mx_dequantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_MXFP8DequantizeLinear."""
    codes, value = type_of(context, node.input(0)), node.input(1)
    scale, made = type_of(context, value), as_read(integer(node, "output_dtype", 0)) or FLOAT
    taken = (FP8, FP4) if scale == TensorProto.UINT8 else (FP8, INT8, INT4, FP4)
    if codes is not None and codes not in taken:
        yield Wrong(f"codes of type {kind(codes)}", " or ".join(map(kind, taken)))
    yield from real_result(node)
    if scale != TensorProto.UINT8 and codes in {FP8, INT4, FP4}:
        yield from same_type("a result", made, scale, or_float=codes == FP8)
    yield from _mx_scale(context, node)
    # Exponents that are computed are those of TRT_MXFP8DynamicQuantize.
    is_given = value is not None and (value.producer is None or context.is_constant(value))
    if scale == TensorProto.UINT8 and value is not None and is_given and not is_stored(value):
        yield Wrong("exponents that are not stored", f"{STORED_WORDS}, or a second output of {MX_DYNAMIC}")


def _mx_scale(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    value, scale = node.input(1), type_of(context, node.input(1))
    if value is None:
        yield Wrong("no scales", "scales")
        return
    if scale not in {None, TensorProto.UINT8, *REAL}:
        yield Wrong(f"scales of type {kind(scale)}", "exponents of type uint8")
    array = context.array(value) if scale in REAL and is_stored(value) else None
    if array is not None and not np.all(array.astype(np.float64) > 0):
        yield Wrong("scales that are not all greater than 0", "scales greater than 0")
    shape, scales = context.shape(node.input(0)), context.shape(value)
    axis = integer(node, "axis", 1 if node.scope.opset >= FIRST_OPSET_WITH_AXIS else 0)
    if shape is not None and scales is not None and scales not in {(), (1,)}:
        yield from _scale_shape(context, shape, scales, axis)


def _scale_shape(context: RuleContext, shape: Shape, scales: Shape, axis: int) -> Iterator[Wrong]:
    rank = len(shape)
    if not -rank <= axis < rank:
        yield Wrong(f"axis {axis} of data of {rank} dimensions", "an axis that the data has")
        return
    axis, found = axis % rank, f"scales of shape {dims(scales)}"
    extent = shape[axis]
    if len(scales) == 1:
        if not isinstance(extent, int) and has_open_input(context):
            yield Wrong(f"a scale for each index of axis {axis}, whose extent is open", "an axis of known extent")
        elif not may_be_equal(extent, scales[0]):
            yield Wrong(found, f"{extent} scales, one for each index of axis {axis}")
    elif len(scales) != rank or set(scales) == {1} or not _divide(shape, scales, axis):
        yield Wrong(found, f"scales of the shape of the data, but for fewer that divide axis {axis}")
    elif axis < rank - 2:
        yield Wrong(f"blocks along axis {axis} of data of {rank} dimensions", "the last axis or the one before")


def _divide(shape: Shape, scales: Shape, axis: int) -> bool:
    """Return whether scales are those of whole blocks along one axis; True where it is not known."""
    pairs = list(zip(shape, scales, strict=True))
    size, count = pairs.pop(axis)
    if isinstance(size, int) and isinstance(count, int) and not (0 < count < size and size % count == 0):
        return False
    return all(may_be_equal(*pair) for pair in pairs)
