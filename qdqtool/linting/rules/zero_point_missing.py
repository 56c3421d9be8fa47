"""QS001: a Q without a quantized type."""

import numpy as np
from onnx import TensorProto

from qdqtool.linting.rules.fixes.stored import write_zero_point
from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule import SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.tensorrt_operators import LINEAR
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target

UINT8 = Offer("safe", "writes the uint8 zero point that ONNX implies")
TYPED = Offer("unsafe", "gives the Q the zero point of its DQ, if its type is not uint8")


class ZeroPointMissing(Rule):
    """A Q has a quantized type, from a zero point or from output_dtype.

    Why it matters: if both are absent, ONNX uses uint8, so negative values become 0, but TensorRT uses int8. The same
    file then gives two different results, without a warning.

    Bad: QuantizeLinear (x, scale).

    Good: QuantizeLinear (x, scale, zero_point) with an int8 zero point of 0, or output_dtype = INT8 (from opset 21).
    """

    code = "QS001"
    name = "spec.quantized-type-missing"
    affects = impacts(tensorrt=SILENT)
    remedy = "add a zero point of the type you mean (int8 zeros), or output_dtype from opset 21"
    offers = (TYPED, UINT8)
    VALID = examples("""
        a zero point:
            $ONE_PAIR
        output_dtype:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 3> (x, s)
                y = DequantizeLinear (q, s)
            }
    """)
    INVALID = examples("""
        neither:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear (x, s)
                y = DequantizeLinear (q, s)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find each Q that has neither."""
        for entry in context.qdq.quantizers():
            # The name of TensorRT's own operators contains the type.
            has_type = bool(entry.node.input_name(2) or entry.output_dtype) or entry.node.op_type in LINEAR
            if not has_type:
                message = "this Q has no zero point and no output_dtype: ONNX makes uint8 codes, TensorRT int8 codes"
                expected = "a zero point or output_dtype"
                fixes = _fixes(context, entry)
                yield Fault(message, entry.node, entry.output, found="absent", expected=expected, fixes=fixes)


def _fixes(context: RuleContext, entry: QdqNode) -> tuple[Fix, ...]:
    zeros = (reader.zero_point for reader in context.qdq.readers(entry))
    typed = next((zero for zero in zeros if zero is not None), None)
    if typed is not None and context.elem_type(typed) != TensorProto.UINT8:
        return (TYPED.fix(f"reads the zero point '{typed.name}' of its DQ", _share, entry, typed),)
    return (UINT8.fix("writes the zero point 0 of type uint8", _write, entry),)


def _share(entry: QdqNode, zero: Value, draft: Draft) -> None:
    if entry.node.scope.resolve(zero.name) is not zero:
        raise UnfitError(f"the zero point '{zero.name}' belongs to another graph")
    draft.set_input(entry.node, 2, zero.name)


def _write(entry: QdqNode, draft: Draft) -> None:
    shape = static_shape(entry.scale_shape)
    if shape is None:
        raise UnfitError("the shape of the scale is unknown")
    write_zero_point(draft, entry, np.zeros(shape, np.uint8))
