"""QS006: zero points of int32 codes."""

import numpy as np
from onnx import TensorProto

from qdqtool.linting.rules.fixes.stored import Stored, stored
from qdqtool.linting.rules.support.extents import of_values
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError, shaped
from qdqtool.linting.rules.support.rule import SILENT, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import Array, RuleContext, as_reals
from qdqtool.linting.rules.support.words import number
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import expand

SHIFTED = Offer("safe", "subtracts the zero point from stored codes, and leaves it out")


class Int32ZeroPoint(Rule):
    """A DQ of int32 codes has no zero point other than 0.

    Why it matters: int32 codes are sums of products, and ONNX defines no zero point for them. Some runtimes ignore the
    zero point. Others, such as ONNX Runtime, subtract it and give other numbers.

    Bad: an int32 bias with zero point 5.

    Good: an int32 bias without zero point, or a float bias.
    """

    code = "QS006"
    name = "structure.int32-zero-point"
    affects = impacts(onnx=SILENT, ort_cpu=SUSPECT)
    remedy = "subtract the zero point from the codes and leave it out"
    offers = (SHIFTED,)
    VALID = examples("""
        no zero point:
            agraph (float[2] x) => (float[2] y) <int32[2] b = {10, -20}, float s = {0.1}> {
                bd = DequantizeLinear (b, s)
                y = Add (x, bd)
            }
    """)
    INVALID = examples("""
        zero point 5:
            agraph (float[2] x) => (float[2] y) <int32[2] b = {10, -20}, float s = {0.1}, int32 z = {5}> {
                bd = DequantizeLinear (b, s, z)
                y = Add (x, bd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every constant zero point of a DQ of int32."""
        for entry in context.qdq.dequantizers():
            zero = context.array(entry.zero_point)
            if entry.quantized_type == TensorProto.INT32 and zero is not None and zero.any():
                assert entry.zero_point is not None
                first = number(zero[zero != 0].flat[0])
                message = f"zero point '{entry.zero_point.name}' of int32 codes is {first}"
                extent = of_values("", zero != 0, np.abs(as_reals(zero)))
                expected = "0, or no zero point"
                fix = SHIFTED.fix("subtracts the zero point from the codes", _shift, entry)
                yield Fault(
                    message, entry.node, entry.zero_point, found=first, extent=extent, expected=expected, fixes=(fix,)
                )


def _shift(entry: QdqNode, draft: Draft) -> None:
    constant = stored(draft.context, entry)
    codes = _shifted(constant)
    limits = np.iinfo(np.int32)
    if codes.size and (codes.min() < limits.min or codes.max() > limits.max):
        raise UnfitError("codes minus zero point are outside int32")
    like = shaped(constant.tensor, TensorProto.INT32)
    name = draft.weights(entry.node.scope, constant.tensor.name, like, lambda: _shifted(constant).astype(np.int32))
    draft.set_input(entry.node, 0, name)
    draft.set_input(entry.node, 2, "")


def _shifted(constant: Stored) -> Array:
    given = constant.parameters
    assert given.zero_point is not None
    zero = expand(given.zero_point, constant.shape, given.granularity).astype(np.int64)
    difference: Array = constant.codes().astype(np.int64) - zero
    return difference
