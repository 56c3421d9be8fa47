"""QT416: operators of TensorRT's parser with inputs and attributes that it does not take."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from onnx import TensorProto

from qdqtool.graph.index import tensorrt_operators as names
from qdqtool.graph.index.qdq import integer_attribute
from qdqtool.graph.index.view import NodeView, Value
from qdqtool.rules.support.rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext
from qdqtool.rules.support.words import dims, kind
from qdqtool.targets import Target

REAL = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16})
Shape = tuple[int | str | None, ...]

PLACEHOLDERS = frozenset({"TRT_FP4QDQ", "TRT_INT8QuantizeLinear", "TRT_INT8DequantizeLinear"})
"""Names that look like operators of the parser. Model Optimizer writes the first, and replaces it after the export."""

HEADER = '<ir_version: 11, opset_import: ["": 23, "trt": 1]>'
FP4 = f"""
            {HEADER}
            agraph (float[%s] x) => (float[%s] y) <%s> {{
                q, b = trt.TRT_FP4DynamicQuantize <%s> (x, s)
                bd = DequantizeLinear (b, s)
                y = DequantizeLinear <axis = -1, block_size = 16> (q, bd)
            }}
            """
MX = f"""
            {HEADER}
            agraph (float[%s] x) => (float[%s] y) {{
                q, s = trt.TRT_MXFP8DynamicQuantize <axis = -1, block_size = 32> (x)
                y = trt.TRT_MXFP8DequantizeLinear <axis = -1, block_size = 32> (q, s)
            }}
            """
BLOCKS = f"""
            {HEADER}
            agraph (float[2,64] x) => (float[2,64] y) <float[2,2] s = {{0.1, 0.2, 0.3, 0.4}}> {{
                q = trt.TRT_BlockQuantize <block_shape = [%s], output_dtype = %d> (x, s)
                y = trt.TRT_BlockDequantize <block_shape = [1,32], output_dtype = 1> (q, s)
            }}
            """
DYNAMIC = f"""
            {HEADER}
            agraph (float[64,64] x) => (float[64,64] y) {{
                q, s = trt.TRT_DynamicQuantize <block_shape = [%s], output_type = %d, scale_type = %d> (x)
                y = trt.TRT_BlockDequantize <block_shape = [16,16], output_dtype = 1> (q, s)
            }}
            """
ONE_SCALE, NVFP4 = "float s = {0.1}", "axis = -1, block_size = 16, scale_type = 17"
TARGETS = ("tensorrt", "tensorrt-rtx")


@dataclass(frozen=True, slots=True)
class Wrong:
    """What TensorRT does not take.

    Attributes:
        found: What the node has.
        expected: What it takes.
    """

    found: str
    expected: str


class TensorrtOperator(Rule):
    """TensorRT's own operators for quantization have the inputs and attributes that its parser and builder take.

    Why it matters: they quantize in blocks, at fixed sizes and along the last axes only, and what they refuse is told
    by an assertion of the parser or by an internal error of the builder. ONNX has no schemas for them.

    Bad: TRT_FP4DynamicQuantize in blocks of 32, or of an image of four dimensions; TRT_FP4QDQ, a placeholder that
    Model Optimizer replaces after the export.

    Good: TRT_FP4DynamicQuantize in blocks of 16 along the last axis, with one stored scale of scales.
    """

    code = "QT416"
    name = "target.tensorrt-operator"
    affects = impacts(tensorrt=REFUSED)
    remedy = "write what the message names; a placeholder is replaced by Model Optimizer's own export functions"
    VALID = (
        Example("NVFP4", FP4 % ("2,64", "2,64", ONE_SCALE, NVFP4), targets=TARGETS),
        Example("NVFP4 of an open batch", FP4 % ("N,64", "N,64", ONE_SCALE, NVFP4), targets=TARGETS),
        Example("MXFP8", MX % ("2,3,64", "2,3,64"), targets=TARGETS),
        Example("blocks of two dimensions", DYNAMIC % ("16,16", TensorProto.FLOAT8E4M3FN, 1), targets=TARGETS),
        Example("stored scales of blocks", BLOCKS % ("1,32", TensorProto.INT8), targets=TARGETS),
    )
    INVALID = (
        Example(
            "blocks of 32 for fp4",
            FP4 % ("2,64", "2,64", ONE_SCALE, NVFP4.replace("= 16", "= 32")),
            targets=TARGETS,
        ),
        Example("fp4 of four dimensions", FP4 % ("1,2,3,64", "1,2,3,64", ONE_SCALE, NVFP4), targets=TARGETS),
        Example("fp4 along an axis that 16 does not divide", FP4 % ("2,24", "2,24", ONE_SCALE, NVFP4), targets=TARGETS),
        Example("fp4 along an open axis", FP4 % ("2,N", "2,N", ONE_SCALE, NVFP4), targets=TARGETS),
        Example("two scales of scales", FP4 % ("2,64", "2,64", "float[2] s = {0.1, 0.2}", NVFP4), targets=TARGETS),
        Example(
            "float scales of fp4",
            FP4 % ("2,64", "2,64", ONE_SCALE, NVFP4.replace("17", "1")),
            targets=TARGETS,
        ),
        Example(
            "a scale of scales that is an input",
            f"""
            {HEADER}
            agraph (float[2,64] x, float s) => (float[2,64] y) {{
                q, b = trt.TRT_FP4DynamicQuantize <axis = -1, block_size = 16> (x, s)
                bd = DequantizeLinear (b, s)
                y = DequantizeLinear <axis = -1, block_size = 16> (q, bd)
            }}
            """,
            targets=TARGETS,
        ),
        Example("MXFP8 along an axis that 32 does not divide", MX % ("2,48", "2,48"), targets=TARGETS),
        Example("int4 in blocks of two dimensions", BLOCKS % ("1,32", TensorProto.INT4), targets=TARGETS),
        Example("a block shape of another rank", BLOCKS % ("32", TensorProto.INT8), targets=TARGETS),
        Example("dynamic int8", DYNAMIC % ("16,16", TensorProto.INT8, 1), targets=TARGETS),
        Example("dynamic scales in fp8", DYNAMIC % ("16,16", TensorProto.FLOAT8E4M3FN, 17), targets=TARGETS),
        Example(
            "a placeholder",
            f"""
            {HEADER}
            agraph (float[2,64] x) => (float[2,64] y) {{
                y = trt.TRT_FP4QDQ <block_size = 16> (x)
            }}
            """,
            targets=TARGETS,
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Look at every such node, by its name alone, as the parser does."""
        del target
        for node in context.nodes:
            check = _CHECKS.get(node.op_type)
            if check is not None:
                for wrong in check(context, node):
                    yield Fault(
                        message=f"{node.op_type} has {wrong.found}; TensorRT takes {wrong.expected}",
                        node=node,
                        found=wrong.found,
                        expected=wrong.expected,
                    )


def _placeholder(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    del context
    yield Wrong(f"the name {node.op_type}", "no operator of that name")


def _mx_dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    if len(node.proto.input) != 1:
        yield Wrong(f"{len(node.proto.input)} inputs", "one")
    yield from _one_axis(context, node, default_axis=-1, block=names.MX_BLOCK)


def _fp4_dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    scale_type = integer_attribute(node, "scale_type") or TensorProto.FLOAT8E4M3FN
    if scale_type != TensorProto.FLOAT8E4M3FN:
        yield Wrong(f"scales of type {kind(scale_type)}", "float8e4m3fn")
    yield from _scale_of_scales(context, node.input(1))
    yield from _one_axis(context, node, default_axis=1, block=names.FP4_BLOCK)


def _scale_of_scales(context: RuleContext, scale: Value | None) -> Iterator[Wrong]:
    if scale is None or not _is_stored(scale):
        yield Wrong("a scale of scales that is not stored", "an initializer or Constant of one element")
        return
    array = context.array(scale)
    if array is not None and array.size != 1:
        yield Wrong(f"{array.size} scales of scales", "one")


def _has_open_input(context: RuleContext) -> bool:
    shapes = [context.shape(context.view.main.values[name]) for name in context.view.main.input_names()]
    return any(shape is None or not all(isinstance(extent, int) for extent in shape) for shape in shapes)


def _is_stored(value: Value) -> bool:
    return value.initializer is not None or (value.producer is not None and value.producer.is_op("Constant"))


def _one_axis(context: RuleContext, node: NodeView, *, default_axis: int, block: int) -> Iterator[Wrong]:
    """What is wrong with dynamic quantization in blocks along one axis."""
    given = integer_attribute(node, "block_size") or block
    if given != block:
        yield Wrong(f"blocks of {given}", f"blocks of {block}")
    if sum(map(bool, node.proto.output)) < 2:
        yield Wrong("one output", "two, codes and scales")
    data = context.elem_type(node.input(0))
    if data is not None and data not in REAL:
        yield Wrong(f"data of type {kind(data)}", "float, float16 or bfloat16")
    shape = context.shape(node.input(0))
    if shape is None:
        return
    if len(shape) not in {2, 3}:
        yield Wrong(f"data of {len(shape)} dimensions", "data of 2 or 3 dimensions")
        return
    given_axis = integer_attribute(node, "axis")
    axis = default_axis if given_axis is None else given_axis
    if axis % len(shape) not in {len(shape) - 1, len(shape) - 2} or not -len(shape) <= axis < len(shape):
        yield Wrong(f"axis {axis} of data of {len(shape)} dimensions", "the last axis or the one before")
    else:
        yield from _divided(context, shape[axis], axis, block)


def _divided(context: RuleContext, extent: int | str | None, axis: int, block: int) -> Iterator[Wrong]:
    if not isinstance(extent, int):
        # Exporters name extents that they do not know, which TensorRT computes where all inputs have a known shape.
        if _has_open_input(context):
            yield Wrong(f"an open extent on axis {axis}", "an extent that is known at build time")
    elif extent % block:
        yield Wrong(f"{extent} elements on axis {axis}", f"a multiple of {block}")


def _blocked(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """What is wrong with stored scales of blocks."""
    made = integer_attribute(node, "output_dtype") or TensorProto.FLOAT8E4M3FN
    if node.op_type == names.BLOCK_QUANTIZE and made not in {TensorProto.FLOAT8E4M3FN, TensorProto.INT8}:
        yield Wrong(f"the type {kind(made)}", "float8e4m3fn or int8")
    shape = context.shape(node.input(0))
    yield from _other_rank(node, shape)
    blocks, scale = _block_shape(node), context.shape(node.input(1))
    if shape is None or scale is None or len(blocks) != len(shape):
        return
    if len(scale) != len(shape) or all(extent == 1 for extent in scale):
        yield Wrong(f"scales of shape {dims(scale)}", "several scales, with as many dimensions as the data")
        return
    needed = tuple(_count(extent, block) for extent, block in zip(shape, blocks, strict=True))
    if any(isinstance(n, int) and isinstance(s, int) and n != s for n, s in zip(needed, scale, strict=True)):
        yield Wrong(f"scales of shape {dims(scale)}", f"scales of shape {dims(needed)}")


def _count(extent: int | str | None, block: int) -> int | None:
    """Return how many blocks an axis has; None where it is unknown."""
    if block == -1:
        return 1
    return -(-extent // block) if isinstance(extent, int) and block > 0 else None


def _dynamic(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    made = integer_attribute(node, "output_type")
    scale = integer_attribute(node, "scale_type") or TensorProto.FLOAT
    if made != TensorProto.FLOAT8E4M3FN:
        yield Wrong("no output_type" if made is None else f"output_type {kind(made)}", "float8e4m3fn")
    if scale != TensorProto.FLOAT:
        yield Wrong(f"scale_type {kind(scale)}", "float")
    if len(node.proto.input) != 1:
        yield Wrong(f"{len(node.proto.input)} inputs", "one")
    shape, blocks = context.shape(node.input(0)), _block_shape(node)
    yield from _other_rank(node, shape)
    if shape is not None and len(blocks) == len(shape) and not _is_dynamic_block(blocks):
        expected = "blocks of more than 1 on the last two axes, or of 16 on one of them"
        yield Wrong(f"block_shape {list(blocks)}", expected)


def _is_dynamic_block(blocks: tuple[int, ...]) -> bool:
    large = [axis for axis, block in enumerate(blocks) if block != 1]
    last = [len(blocks) - 2, len(blocks) - 1]
    return large == last or (len(large) == 1 and large[0] in last and blocks[large[0]] == names.FP4_BLOCK)


def _other_rank(node: NodeView, shape: Shape | None) -> Iterator[Wrong]:
    blocks = _block_shape(node)
    if not blocks:
        yield Wrong("no block_shape", "an extent for each dimension")
    elif shape is not None and len(blocks) != len(shape):
        yield Wrong(f"block_shape {list(blocks)}", f"{len(shape)} extents, as many as the data has dimensions")


def _block_shape(node: NodeView) -> tuple[int, ...]:
    found = node.attribute("block_shape")
    return tuple(found) if isinstance(found, list) and all(isinstance(each, int) for each in found) else ()


def _mx_static(context: RuleContext, node: NodeView) -> Iterator[Wrong]:
    """What is wrong with MXFP8 at stored scales: a Q needs them stored; those of a DQ may be computed."""
    scale, data = node.input(1), node.input(0)
    if scale is None or data is None:
        return
    scale_type = context.elem_type(scale)
    if scale_type is not None and scale_type not in {TensorProto.UINT8, *REAL}:
        yield Wrong(f"scales of type {kind(scale_type)}", "exponents of type uint8")
    if node.op_type == names.MX_QUANTIZE and not _is_stored(scale):
        yield Wrong("scales that are not stored", "an initializer or Constant")
    data_type = context.elem_type(data)
    if node.op_type == names.MX_DEQUANTIZE and data_type not in {None, TensorProto.FLOAT8E4M3FN}:
        yield Wrong(f"codes of type {kind(data_type)}", "float8e4m3fn")
    shape, scales, axis = context.shape(data), context.shape(scale), integer_attribute(node, "axis")
    if shape is not None and scales is not None and not _fits(shape, scales, 1 if axis is None else axis):
        yield Wrong(f"scales of shape {dims(scales)}", "one scale, or one for each index or block of the axis")


def _fits(shape: Shape, scales: Shape, axis: int) -> bool:
    """Return whether scales are per-tensor, per-axis, or of whole blocks on the axis; True where it is not known."""
    known = [extent for extent in scales if isinstance(extent, int)]
    if len(known) < len(scales) or not -len(shape) <= axis < len(shape):
        return True
    if math.prod(known) == 1:
        return len(known) < 2
    axis, extent = axis % len(shape), shape[axis]
    if len(scales) == 1 and len(shape) > 1:
        return not isinstance(extent, int) or known[0] == extent
    if len(scales) != len(shape):
        return False
    others = [(size, count) for at, (size, count) in enumerate(zip(shape, known, strict=True)) if at != axis]
    divided = not isinstance(extent, int) or (known[axis] > 0 and extent % known[axis] == 0)
    return divided and all(not isinstance(size, int) or size == count for size, count in others)


_CHECKS: Mapping[str, Callable[[RuleContext, NodeView], Iterator[Wrong]]] = {
    **dict.fromkeys(PLACEHOLDERS, _placeholder),
    names.MX_DYNAMIC: _mx_dynamic,
    names.FP4_DYNAMIC: _fp4_dynamic,
    names.DYNAMIC: _dynamic,
    names.BLOCK_QUANTIZE: _blocked,
    names.BLOCK_DEQUANTIZE: _blocked,
    names.MX_QUANTIZE: _mx_static,
    names.MX_DEQUANTIZE: _mx_static,
}
