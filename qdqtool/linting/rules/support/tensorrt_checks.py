"""Check TensorRT's own quantization operators against what TensorRT for RTX accepts, as measured.

The parser reads TRT_MXFP8QuantizeLinear and TRT_MXFP8DequantizeLinear like the Q and DQ of ONNX.
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
    REAL_WORDS,
    STORED_WORDS,
    Shape,
    as_read,
    block_shape,
    block_shape_fits,
    has_open_input,
    integer,
    may_be_equal,
    real_data,
    real_result,
    same_type,
    type_of,
)
from qdqtool.linting.rules.support.words import FLOAT_TYPES, Wrong, dims, kind
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS
from qdqtool.models.graph.index.tensorrt_operators import FP4_BLOCK, MX_BLOCK, MX_DYNAMIC
from qdqtool.models.graph.index.view import NodeView


def block_quantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_BlockQuantize."""
    made = integer(node, "output_dtype", 0) or FP8
    if made not in {FP8, INT8}:
        yield Wrong(f"the type {kind(made)}", f"{kind(FP8)} or {kind(INT8)}")
    yield from real_data(context, node)
    yield from _real_scale(context, node)
    if made == FP8:
        yield from same_type("data", type_of(context, node.input(0)), type_of(context, node.input(1)))
    yield from _scale_blocks(context, node)


def block_dequantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_BlockDequantize."""
    codes, scale = type_of(context, node.input(0)), type_of(context, node.input(1))
    made = as_read(integer(node, "output_dtype", 0)) or scale
    if codes not in {None, FP8, INT8, FP4}:
        yield Wrong(f"codes of type {kind(codes)}", f"{kind(FP8)}, {kind(INT8)} or {kind(FP4)}")
    yield from _real_scale(context, node)
    yield from real_result(node)
    if codes == INT8 and made not in {FLOAT, scale}:
        yield Wrong(
            f"a result of type {kind(made)} and scales of type {kind(scale)}",
            "a result of type float32 or of the same type",
        )
    elif codes == FP8:
        yield from same_type("a result", made, scale)
    elif codes == FP4:
        yield from same_type("a result", made, scale, or_float=False)
    yield from _scale_blocks(context, node)


def _real_scale(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    scale = type_of(context, node.input(1))
    if node.input(1) is None:
        yield Wrong("no scales", "scales")
    elif scale not in {None, *FLOAT_TYPES}:
        yield Wrong(f"scales of type {kind(scale)}", REAL_WORDS)


def _scale_blocks(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what is wrong with the block shape and the shape of the scales."""
    yield from block_shape_fits(context, node)
    shape, scale, blocks = context.shape(node.input(0)), context.shape(node.input(1)), block_shape(node)
    if shape is None or scale is None or len(blocks) != len(shape):
        return
    if len(scale) != len(shape) or len(shape) < 2 or all(extent == 1 for extent in scale):
        yield Wrong(f"scales of shape {dims(scale)}", "several scales, with as many dimensions as the data, 2 or more")
        return
    needed = tuple(_count(extent, block) for extent, block in zip(shape, blocks, strict=True))
    if not all(map(may_be_equal, needed, scale)):
        yield Wrong(f"scales of shape {dims(scale)}", f"scales of shape {dims(needed)}")


def _count(extent: int | str | None, block: int) -> int | None:
    """Return how many blocks an axis has, or None if it is unknown."""
    if block == -1:
        return 1
    return -(-extent // block) if isinstance(extent, int) and block > 0 else None


def mx_dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_MXFP8DynamicQuantize."""
    yield from _is_alone(node)
    yield from _block_size(integer(node, "block_size", MX_BLOCK), MX_BLOCK)
    yield from _makes_scales(node)
    yield from real_data(context, node)
    yield from _one_axis(context, node, integer(node, "axis", -1), MX_BLOCK)


def fp4_dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_FP4DynamicQuantize."""
    yield from _scale_of_scales(context, node)
    yield from _scales_of_type(integer(node, "scale_type", 0), FP8)
    yield from _block_size(integer(node, "block_size", 0) or FP4_BLOCK, FP4_BLOCK)
    yield from _makes_scales(node)
    yield from real_data(context, node)
    yield from _one_axis(context, node, integer(node, "axis", 1), FP4_BLOCK)


def dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_DynamicQuantize."""
    made = integer(node, "output_type", 0)
    if made != FP8:
        yield Wrong(f"output_type {kind(made)}" if made else "no output_type", kind(FP8))
    yield from _scales_of_type(integer(node, "scale_type", 0), FLOAT)
    yield from _is_alone(node)
    yield from _makes_scales(node)
    yield from real_data(context, node)
    yield from block_shape_fits(context, node)
    shape, blocks = context.shape(node.input(0)), block_shape(node)
    if shape is None or len(shape) != len(blocks):
        return
    rank, large = len(blocks), [axis for axis, block in enumerate(blocks) if block != 1]
    if len(large) == 1 and large[0] >= rank - 2 and blocks[large[0]] == FP4_BLOCK:
        yield from _one_axis(context, node, large[0], FP4_BLOCK, at_least=2)
    elif large != [rank - 2, rank - 1] or 0 in blocks:
        expected = "blocks of more than 1 on the last two axes, or of 16 on one of them"
        yield Wrong(f"block_shape {list(blocks)}", expected)


def _is_alone(node: NodeView) -> Iterator[Wrong]:
    if len(node.proto.input) != 1:
        yield Wrong(f"{len(node.proto.input)} inputs", "one")


def _block_size(given: int, taken: int) -> Iterator[Wrong]:
    if given != taken:
        yield Wrong(f"blocks of {given}", f"blocks of {taken}")


def _makes_scales(node: NodeView) -> Iterator[Wrong]:
    if sum(map(bool, node.proto.output)) < 2:
        yield Wrong("one output", "two, codes and scales")


def _scales_of_type(given: int, taken: int) -> Iterator[Wrong]:
    if given not in {0, taken}:
        yield Wrong(f"scales of type {kind(given)}", kind(taken))


def _scale_of_scales(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    scale = node.input(1)
    if scale is None or not scale.is_stored:
        yield Wrong("a scale of scales that is not stored", f"{STORED_WORDS} of one element")
        return
    array = context.array(scale)
    if array is not None and array.size != 1:
        yield Wrong(f"{array.size} scales of scales", "one")
    yield from same_type("data", type_of(context, node.input(0)), type_of(context, scale))


def _one_axis(context: RuleContext, node: NodeView, axis: int, block: int, at_least: int = 1) -> Iterator[Wrong]:
    """Yield what is wrong with data that is quantized in blocks along one axis."""
    shape = context.shape(node.input(0))
    if shape is None:
        return
    rank = len(shape)
    if rank not in {2, 3}:
        yield Wrong(f"data of {rank} dimensions", "data of 2 or 3 dimensions")
    elif not -rank <= axis < rank or axis % rank < rank - 2:
        yield Wrong(f"axis {axis} of data of {rank} dimensions", "the last axis or the one before")
    else:
        yield from _divided(context, shape[axis], axis, block, at_least)


def _divided(context: RuleContext, extent: int | str | None, axis: int, block: int, at_least: int) -> Iterator[Wrong]:
    if not isinstance(extent, int):
        # Exporters give unknown extents a name. TensorRT computes these extents if all inputs have a known shape.
        if has_open_input(context):
            yield Wrong(f"an open extent on axis {axis}", "an extent that is known at build time")
    elif extent % block:
        yield Wrong(f"{extent} elements on axis {axis}", f"a multiple of {block}")
    elif extent < at_least * block:
        yield Wrong(f"{extent} elements on axis {axis}", f"at least {at_least} blocks of {block}")


def mx_quantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_MXFP8QuantizeLinear."""
    data, value = type_of(context, node.input(0)), node.input(1)
    scale, made = type_of(context, value), integer(node, "output_dtype", 0) or FP8
    yield from real_data(context, node)
    if scale == TensorProto.UINT8 and made != FP8:
        yield Wrong(f"the type {kind(made)} with exponents of type uint8", kind(FP8))
    elif made not in {FP8, INT8, INT4, FP4}:
        yield Wrong(f"the type {kind(made)}", f"{kind(FP8)}, {kind(INT8)}, {kind(INT4)} or {kind(FP4)}")
    elif scale != TensorProto.UINT8 and made != INT8:
        yield from same_type("data", data, scale, or_float=made != FP4)
    yield from _mx_scale(context, node)
    if scale == TensorProto.UINT8 and value is not None and not value.is_stored:
        yield Wrong("exponents that are not stored", STORED_WORDS)


def mx_dequantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not accept about a TRT_MXFP8DequantizeLinear."""
    codes, value = type_of(context, node.input(0)), node.input(1)
    scale, made = type_of(context, value), as_read(integer(node, "output_dtype", 0)) or FLOAT
    taken = (FP8, FP4) if scale == TensorProto.UINT8 else (FP8, INT8, INT4, FP4)
    if codes is not None and codes not in taken:
        yield Wrong(f"codes of type {kind(codes)}", " or ".join(map(kind, taken)))
    yield from real_result(node)
    if scale != TensorProto.UINT8 and codes in {FP8, INT4, FP4}:
        yield from same_type("a result", made, scale, or_float=codes == FP8)
    yield from _mx_scale(context, node)
    # Computed exponents come from TRT_MXFP8DynamicQuantize and are accepted.
    is_given = value is not None and (value.producer is None or context.is_constant(value))
    if scale == TensorProto.UINT8 and value is not None and is_given and not value.is_stored:
        yield Wrong("exponents that are not stored", f"{STORED_WORDS}, or a second output of {MX_DYNAMIC}")


def _mx_scale(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    value, scale = node.input(1), type_of(context, node.input(1))
    if value is None:
        yield Wrong("no scales", "scales")
        return
    if scale not in {None, TensorProto.UINT8, *FLOAT_TYPES}:
        yield Wrong(f"scales of type {kind(scale)}", "exponents of type uint8")
    array = context.array(value) if scale in FLOAT_TYPES and value.is_stored else None
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
        yield Wrong(found, f"scales in the shape of the data, with a number along axis {axis} that divides its extent")
    elif axis < rank - 2:
        yield Wrong(f"blocks along axis {axis} of data of {rank} dimensions", "the last axis or the one before")


def _divide(shape: Shape, scales: Shape, axis: int) -> bool:
    """Return whether the scales fit whole blocks along one axis; True if extents are unknown."""
    pairs = list(zip(shape, scales, strict=True))
    size, count = pairs.pop(axis)
    if isinstance(size, int) and isinstance(count, int) and not (0 < count < size and size % count == 0):
        return False
    return all(may_be_equal(*pair) for pair in pairs)
