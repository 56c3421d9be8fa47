"""What TensorRT takes of TRT_BlockQuantize and TRT_BlockDequantize, measured with TensorRT for RTX 1.7.1."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.tensorrt_operands import (
    FLOAT,
    FP4,
    FP8,
    INT8,
    REAL,
    REAL_WORDS,
    Wrong,
    as_read,
    block_shape,
    block_shape_fits,
    integer,
    may_be_equal,
    real_data,
    real_result,
    same_type,
    type_of,
)
from qdqtool.linting.rules.support.words import dims, kind
from qdqtool.models.graph.index.view import NodeView


def block_quantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_BlockQuantize."""
    made = integer(node, "output_dtype", 0) or FP8
    if made not in {FP8, INT8}:
        yield Wrong(f"the type {kind(made)}", f"{kind(FP8)} or {kind(INT8)}")
    yield from real_data(context, node)
    yield from _real_scale(context, node)
    if made == FP8:
        yield from same_type("data", type_of(context, node.input(0)), type_of(context, node.input(1)))
    yield from _scale_blocks(context, node)


def block_dequantize(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_BlockDequantize."""
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
    elif scale not in {None, *REAL}:
        yield Wrong(f"scales of type {kind(scale)}", REAL_WORDS)


def _scale_blocks(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what is wrong with the shapes of blocks and of their scales."""
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
    """Return how many blocks an axis has; None where it is unknown."""
    if block == -1:
        return 1
    return -(-extent // block) if isinstance(extent, int) and block > 0 else None
