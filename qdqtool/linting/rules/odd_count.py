"""QA204: 4-bit tensors with an odd number of elements."""

from collections.abc import Iterator
from math import prod

from qdqtool.linting.rules.fixes.stored import WIDER, wider_fixes
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims, kind
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.targets import Target

FOUR_BIT = frozenset({"int4", "uint4", "float4e2m1"})


class OddCount(Rule):
    """A tensor of a 4-bit type has an even number of elements.

    Why it matters: two codes share a byte. ONNX pads the last byte, but TensorRT refuses the tensor ("4-bit
    quantization requires an even number of elements"). Before TensorRT 10.6 the last dimension must be even.

    Bad: an int4 weight [3, 3].

    Good: pad one dimension, or leave this weight in int8.
    """

    code = "QA204"
    name = "axis.odd-4-bit"
    affects = impacts(tensorrt=REFUSED)
    remedy = "pad a dimension to an even extent, or leave the tensor in int8"
    offers = (WIDER,)
    VALID = examples("""
        6 elements:
            agraph (float[1,2] x) => (float[1,3] y) <int4[2,3] w = {33, 67, 101}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        9 elements:
            agraph (float[1,3] x) => (float[1,3] y) <int4[3,3] w = {33, 67, 101, 33, 1}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
        an odd last dimension, for a release that packs rows [tensorrt-10.5]:
            agraph (float[1,2] x) => (float[1,3] y) <int4[2,3] w = {33, 67, 101}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Count the elements of every 4-bit tensor that a Q makes or a DQ reads."""
        for entry in context.qdq.nodes:
            if kind(entry.quantized_type) not in FOUR_BIT or context.qdq.quantizer_of(entry) is not None:
                continue
            shape = context.data_shape(entry)
            extents = static_shape(shape)
            if shape is None or extents is None:
                continue
            for found, what in _odd(extents, target):
                message = f"{kind(entry.quantized_type)} tensor of shape {dims(shape)}: {what} is {found}"
                codes = entry.output if entry.is_quantize else entry.data
                fixes = wider_fixes(entry)
                yield Fault(message, entry.node, codes, found=str(found), expected="an even number", fixes=fixes)


def _odd(extents: tuple[int, ...], target: Target) -> Iterator[tuple[int, str]]:
    """Yield each odd number that must be even, with the quantity that it counts."""
    if prod(extents) % 2:
        # A scalar has one element and ends here, so the shape below has a last dimension.
        yield prod(extents), "the number of elements"
    elif target.even_last_dimension and extents[-1] % 2:
        yield extents[-1], "the last dimension"
