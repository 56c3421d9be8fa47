"""What TensorRT takes of operators that compute scales from the data, measured with TensorRT for RTX 1.7.1."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.tensorrt_operands import (
    FLOAT,
    FP8,
    STORED_WORDS,
    Wrong,
    block_shape,
    block_shape_fits,
    has_open_input,
    integer,
    is_stored,
    real_data,
    same_type,
    type_of,
)
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.tensorrt_operators import FP4_BLOCK, MX_BLOCK
from qdqtool.models.graph.index.view import NodeView


def mx_dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_MXFP8DynamicQuantize."""
    yield from _is_alone(node)
    yield from _block_size(integer(node, "block_size", MX_BLOCK), MX_BLOCK)
    yield from _makes_scales(node)
    yield from real_data(context, node)
    yield from _one_axis(context, node, integer(node, "axis", -1), MX_BLOCK)


def fp4_dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_FP4DynamicQuantize."""
    yield from _scale_of_scales(context, node)
    yield from _scales_of_type(integer(node, "scale_type", 0), FP8)
    yield from _block_size(integer(node, "block_size", 0) or FP4_BLOCK, FP4_BLOCK)
    yield from _makes_scales(node)
    yield from real_data(context, node)
    yield from _one_axis(context, node, integer(node, "axis", 1), FP4_BLOCK)


def dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield what TensorRT does not take of a TRT_DynamicQuantize."""
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
    if scale is None or not is_stored(scale):
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
        # Exporters name extents that they do not know, which TensorRT computes where all inputs have a known shape.
        if has_open_input(context):
            yield Wrong(f"an open extent on axis {axis}", "an extent that is known at build time")
    elif extent % block:
        yield Wrong(f"{extent} elements on axis {axis}", f"a multiple of {block}")
    elif extent < at_least * block:
        yield Wrong(f"{extent} elements on axis {axis}", f"{at_least} blocks of {block} at least")
