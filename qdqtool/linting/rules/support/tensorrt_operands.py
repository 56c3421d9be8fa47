"""How TensorRT's parser reads attributes and types of its own operators, and checks that these operators share."""

from collections.abc import Iterator

from onnx import TensorProto

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import FLOAT_TYPES, Wrong, kind
from qdqtool.models.graph.index.view import NodeView, Value

FLOAT, FP8, FP4 = TensorProto.FLOAT, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT4E2M1
INT8, INT4 = TensorProto.INT8, TensorProto.INT4
REAL_WORDS = "float32, float16 or bfloat16"
STORED_WORDS = "an initializer or Constant"

Shape = tuple[int | str | None, ...]


def integer(node: NodeView, name: str, default: int) -> int:
    """Return an integer attribute as the parser reads it: an attribute of another type is read as 0."""
    found = node.attribute(name, default)
    return found if isinstance(found, int) else 0


def as_read(onnx_type: int) -> int:
    """Return the type as the parser reads it: float64 is read as float32."""
    return FLOAT if onnx_type == TensorProto.DOUBLE else onnx_type


def type_of(context: RuleContext, value: Value | None) -> int | None:
    """Return the type of a tensor in TensorRT, or None if it is unknown."""
    found = context.elem_type(value)
    return as_read(found) if found is not None else None


def real_data(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield a fault if the data to quantize is not of a float type."""
    data = type_of(context, node.input(0))
    if data not in {None, *FLOAT_TYPES}:
        yield Wrong(f"data of type {kind(data)}", REAL_WORDS)


def real_result(node: NodeView) -> Iterator[Wrong]:
    """Yield a fault if the dequantized result is not of a float type."""
    made = as_read(integer(node, "output_dtype", 0))
    if made not in {0, *FLOAT_TYPES}:
        yield Wrong(f"output_dtype {kind(made)}", REAL_WORDS)


def same_type(what: str, found: int | None, scale: int | None, *, or_float: bool = True) -> Iterator[Wrong]:
    """Yield a fault if the scales do not have the type of the data, or of the dequantized result.

    Args:
        what: ``data`` or ``a result``.
        found: The type of the data or result.
        scale: The type of the scales.
        or_float: Whether float32 scales fit any type.
    """
    if {found, scale} <= FLOAT_TYPES and scale != found and not (or_float and scale == FLOAT):
        words = "scales of type float32 or of the same type" if or_float else "scales of the same type"
        yield Wrong(f"{what} of type {kind(found)} and scales of type {kind(scale)}", words)


def has_open_input(context: RuleContext) -> bool:
    """Return whether an input of the model has an extent that is known only at run time."""
    shapes = [context.shape(context.view.main.values[name]) for name in context.view.main.input_names()]
    return any(shape is None or not all(isinstance(extent, int) for extent in shape) for shape in shapes)


def may_be_equal(left: int | str | None, right: int | str | None) -> bool:
    """Return whether two extents are equal; True if one of them is unknown."""
    return not isinstance(left, int) or not isinstance(right, int) or left == right


def block_shape_fits(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """Yield a fault if ``block_shape`` does not have an extent for each dimension."""
    shape, blocks = context.shape(node.input(0)), block_shape(node)
    if not blocks:
        yield Wrong("no block_shape", "an extent for each dimension")
    elif min(blocks) < -1:
        yield Wrong(f"block_shape {list(blocks)}", "extents, and -1 for a whole dimension")
    elif shape is not None and len(blocks) != len(shape):
        yield Wrong(f"block_shape {list(blocks)}", f"{len(shape)} extents, as many as the data has dimensions")


def block_shape(node: NodeView) -> tuple[int, ...]:
    """Return the extents of a block; empty if the attribute is absent or not a list of integers."""
    found = node.attribute("block_shape")
    return tuple(found) if isinstance(found, list) and all(isinstance(each, int) for each in found) else ()
