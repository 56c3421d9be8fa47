"""QA206: a block_size attribute that is absent or does not agree with the scale."""

import sys
from collections.abc import Iterator

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.fixes.reblock import (
    FITTED,
    PER_AXIS,
    REBLOCKED,
    SIZED,
    SPLIT,
    one_block_fixes,
    reblock_fixes,
)
from qdqtool.linting.rules.fixes.scales import SCALAR, scalar_fixes
from qdqtool.linting.rules.support.blocks import Blocks, blocks, vector_blocks
from qdqtool.linting.rules.support.rule import CAUTION, REFUSED, SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims, kind
from qdqtool.models.targets import Target


class BlockSize(Rule):
    """block_size agrees with the extents of data and scale.

    Why it matters: TensorRT never reads the attribute: its block size is the extent divided by the number of blocks. In
    ONNX every block has block_size elements, and the last one may be shorter. If the two differ, ONNX Runtime refuses
    the first run, or both runtimes compute with different blocks.

    Bad: 100 rows, 4 scales, block_size 32: ONNX makes blocks of 32, 32, 32 and 4, TensorRT makes four blocks of 25.

    Good: pad to 128 rows. If one block covers a whole axis, write a scale for each index of the other axis instead. The
    numbers are the same, but TensorRT for RTX cannot compile some networks with such a block.
    """

    code = "QA206"
    name = "axis.block-size"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=SILENT)
    remedy = "set block_size to the extent divided by the number of blocks; pad the axis if this is not a whole number"
    offers = (SCALAR, PER_AXIS, FITTED, SIZED, SPLIT, REBLOCKED)
    VALID = examples("""
        two blocks of 2:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        no block_size:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                y = MatMul (x, wd)
            }
        two blocks of 3 and 1 for ONNX, of 2 and 2 for TensorRT [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 3> (w, ws, wz)
                y = MatMul (x, wd)
            }
        one block of int8, which is a scale for each column [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,2] y) <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[1,2] ws = {0.1,0.2}> {
                wd = DequantizeLinear <axis = 0, block_size = 4> (w, ws)
                y = MatMul (x, wd)
            }
        a block size beside one scale for all [ort-cpu]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <block_size = 2> (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
        a block size beside a scale for each column [ort-cpu]:
            agraph (float[1,4] x) => (float[1,2] y) <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2] ws = {0.1,0.2}> {
                wd = DequantizeLinear <axis = 1, block_size = 2> (w, ws)
                y = MatMul (x, wd)
            }
        blocks of 4 would be one, not two:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 4> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare block_size with the extents if exactly one axis is in blocks."""
        tensorrt = target.family == "tensorrt"
        if target.family == "ort-cpu":
            yield from _without_blocks(context)
        for found in blocks(context) if tensorrt else (*blocks(context), *_vectors(context)):
            legal = _legal_sizes(found, tensorrt=tensorrt)
            size = found.entry.block_size
            if legal is None:
                continue
            low, high = legal
            if low <= size <= high:
                if tensorrt and _is_one_block(found):
                    yield _one_block(found)
                continue
            entry, given, expected = found.entry, str(size or "absent"), _range(low, high)
            scale, data = dims(found.scale), dims(found.shape)
            message = f"block_size is {given}; scale {scale} divides data {data} into blocks of {low}"
            extent, fixes = Extent(f"{given} for {expected}"), scalar_fixes(entry) or reblock_fixes(found)
            yield Fault(message, entry.node, entry.scale, found=given, expected=expected, extent=extent, fixes=fixes)


def _vectors(context: RuleContext) -> Iterator[Blocks]:
    return (found for entry in context.qdq.nodes if (found := vector_blocks(context, entry)) is not None)


def _without_blocks(context: RuleContext) -> Faults:
    """Yield nodes with a block size but without block scales: ONNX Runtime refuses them at run time."""
    for entry in context.qdq.nodes:
        scale = entry.scale_shape
        if entry.block_size <= 0 or scale is None or len(scale) > 1 or vector_blocks(context, entry) is not None:
            continue
        message = f"block_size is {entry.block_size}, but the scale of shape {dims(scale)} has no blocks"
        yield Fault(message, entry.node, entry.scale, found=str(entry.block_size), expected="no block_size")


def _range(low: int, high: int) -> str:
    if high == sys.maxsize:
        return f"{low} or more"
    return str(low) if low >= high else f"{low} to {high}"


def _is_one_block(found: Blocks) -> bool:
    """Return whether the scales are per-axis scales written as blocks, and kernels read the type per-axis."""
    (axis,) = found.blocked
    kernels = kind(found.entry.quantized_type) in {"int8", "float8e4m3fn"}
    return kernels and len(found.shape) == 2 and found.scale[axis] == 1


def _one_block(found: Blocks) -> Fault:
    (axis,) = found.blocked
    message = f"one block covers axis {axis}: this is a scale for each index of axis {1 - axis}"
    entry, expected, fixes = found.entry, dims(found.scale[1 - axis : 2 - axis]), one_block_fixes(found)
    given = dims(found.scale)
    return Fault(message, entry.node, entry.scale, found=given, expected=expected, impact=CAUTION, fixes=fixes)


def _has_one_element(found: Blocks) -> bool:
    """Return whether the axis has one element: one block of any size."""
    axis, rank = found.entry.axis, len(found.shape)
    return -rank <= axis < rank and found.shape[axis] == 1


def _legal_sizes(found: Blocks, *, tensorrt: bool) -> tuple[int, int] | None:
    """Return the least and greatest legal size; None if rule axis.block-shape refuses the shapes."""
    if not found.blocked:
        return None if tensorrt else (1, sys.maxsize if _has_one_element(found) else 1)
    if len(found.blocked) > 1:
        return None
    (axis,) = found.blocked
    low, high = found.legal_sizes
    if not tensorrt or found.scale[axis] == 1:
        return low, high
    # TensorRT never reads block_size: it divides the extent by the number of scales, and refuses a remainder.
    return None if found.shape[axis] % found.scale[axis] else (low, low)
