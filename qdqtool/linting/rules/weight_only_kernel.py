"""QL315: weight-only quantized weights that no matrix kernel reads."""

from qdqtool.linting.rules.support.rule import Fault, Faults, Impact, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import Blocked

WHOLE = frozenset({"int8", "float8e4m3fn"})
"""Formats that kernels read with one scale for the tensor, or one for each output channel (even as a single block)."""

BLOCKS = frozenset({"int4"})
"""Formats that kernels read in at least two blocks."""


class WeightOnlyKernel(Rule):
    """In a weight-only quantized MatMul or Gemm, a kernel reads the stored codes directly.

    Why it matters: weight-only quantization is faster because codes are read from memory instead of floats. TensorRT
    for RTX has kernels for int8 and float8e4m3fn, with one scale or one for each output channel, and for int4 in
    blocks. A separate kernel converts all other weights to float each time that the layer runs. The file is smaller,
    but the layer does more work than in float.

    Bad: int8 in blocks of 128; int4 with a scale for each output channel; float4e2m1 with a float activation.

    Good: int8 with a scale for each output channel; int4 in blocks of 128.
    """

    code = "QL315"
    name = "placement.weight-only-kernel"
    affects = impacts(tensorrt_rtx=Impact("info", "fallback"))
    remedy = "use int8 or fp8 weights with a scale for each output channel, or int4 weights in blocks"
    VALID = examples("""
        int8 for each output channel:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] s = {0.1, 0.2}, int8[2] z = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, s, z)
                [m] y = MatMul (x, wd)
            }
        int4 in two blocks:
            agraph (float[1,4] x) => (float[1,2] y)
            <int4[4,2] w = {33, 67, 101, 33}, float[2,2] s = {0.1,0.2,0.3,0.4}> {
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, s)
                [m] y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        int8 in blocks:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] s = {0.1,0.2,0.3,0.4}> {
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, s)
                [m] y = MatMul (x, wd)
            }
        int4 with one scale:
            agraph (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float s = {0.1}> {
                wd = DequantizeLinear (w, s)
                [m] y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at each MatMul and Gemm of which only the weight is quantized."""
        for product in context.products:
            right = product.right
            if product.left is not None or right is None or not product.op.is_matrix_product:
                continue
            entry = right.dequantize
            if context.qdq.is_weight(entry) and entry.granularity is not None and not _is_read(context, entry):
                found = f"{kind(entry.quantized_type)} {entry.granularity}"
                message = f"no kernel reads {kind(entry.quantized_type)} weights {entry.granularity}"
                expected = "int8 or float8e4m3fn for each output channel, or int4 in blocks"
                weight = product.node.input(product.weight_index)
                yield Fault(message, product.node, weight, found=found, expected=expected)


def _is_read(context: RuleContext, entry: QdqNode) -> bool:
    """Return whether a matrix kernel of TensorRT reads the codes."""
    # Seen in the layer dump of TensorRT for RTX: a separate kernel dequantizes other weights.
    quantized, axis = kind(entry.quantized_type), context.axis(entry)
    if not isinstance(entry.granularity, Blocked):
        return quantized in WHOLE
    counts = entry.scale_shape
    assert counts is not None
    blocks = counts[axis] if axis is not None and axis < len(counts) else None
    if not isinstance(blocks, int):
        # The number of blocks is unknown.
        return True
    return quantized in (WHOLE if blocks == 1 else BLOCKS)
