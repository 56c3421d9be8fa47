"""QS004: Q/DQ features that are newer than the model's opset."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.extents import PER_AXIS, needs, reads_axis_1
from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import CAUTION, REFUSED, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

RAISED = Offer("safe", "raises the opset, as onnx converts each operator")


class OpsetTooLow(Rule):
    """The opset has the types and attributes that the model's Q/DQ use.

    Why it matters: Q/DQ came with opset 10. Later opsets added per-axis scales (13), fp8 and float16 scales (19), int4,
    int16 and blocks (21), and fp4 (23). ONNX Runtime refuses features that are newer than the opset of the model.
    TensorRT does not check this. Below opset 13, ONNX Runtime reads several scales on axis 1 and TensorRT on axis 0.

    Bad: int4 weights in a model of opset 19.

    Good: the same model at opset 21.
    """

    code = "QS004"
    name = "spec.opset-too-low"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=CAUTION)
    remedy = "upgrade the model's opset"
    offers = (RAISED,)
    cause = "nodes that need a later opset"
    VALID = examples("""
        int4 at opset 21:
            agraph (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        int4 at opset 19:
            <ir_version: 10, opset_import: ["": 19]>
            agraph (float[1,2] x) => (float[1,2] y) <int4[2,2] w = {33, 67}, float ws = {0.1}> {
                wd = DequantizeLinear (w, ws)
                y = MatMul (x, wd)
            }
        per-axis scales at opset 11:
            <ir_version: 6, opset_import: ["": 11]>
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find the newest feature that each Q or DQ uses; the first fault has the fix for all of them."""
        low = [(entry, what, first) for entry in context.qdq.nodes for what, first in _too_new(context, entry)]
        if not low:
            return
        highest = max(first for _, _, first in low)
        for number, (entry, what, first) in enumerate(low):
            opset = entry.node.scope.opset
            raised = RAISED.fix(f"raises the opset from {opset} to {highest}", _raise, highest)
            message = f"this {short(entry)} uses {what}; the model's opset is {opset}"
            expected = f"at least opset {first}"
            impact = SUSPECT if reads_axis_1(entry, target) and _is_read(context, entry) else None
            fixes = () if number else (raised,)
            yield Fault(
                message,
                entry.node,
                found=f"opset {opset}",
                expected=expected,
                impact=impact,
                fixes=fixes,
                fixed_by=RAISED if number else None,
            )


def _too_new(context: RuleContext, entry: QdqNode) -> Iterator[tuple[str, int]]:
    if entry.is_standard:
        what, first = max(needs(context, entry), key=lambda need: need[1])
        if first > entry.node.scope.opset:
            yield what, first


def _is_read(context: RuleContext, entry: QdqNode) -> bool:
    """Return whether ONNX Runtime runs several scales at an old opset: one for each index of axis 1."""
    shape, scale = context.data_shape(entry), entry.scale_shape
    too_new = [what for what, first in needs(context, entry) if first > entry.node.scope.opset]
    if too_new != [PER_AXIS] or (shape is not None and len(shape) < 2):
        return False
    assert scale is not None
    extent, count = None if shape is None else shape[1], scale[0]
    return not isinstance(extent, int) or not isinstance(count, int) or extent == count


def _raise(opset: int, draft: Draft) -> None:
    draft.opset = opset
