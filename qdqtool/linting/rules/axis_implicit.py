"""QS002: several scales without an axis attribute."""

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import (
    ADVICE,
    CAUTION,
    REFUSED,
    SILENT,
    Fault,
    Faults,
    Impact,
    Rule,
    examples,
    impacts,
)
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims, short
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS, QdqNode
from qdqtool.models.targets import Target

AXIS = Offer("safe", "writes the default axis as an attribute")


class AxisImplicit(Rule):
    """A Q or DQ with more than one scale names the axis.

    Why it matters: the ONNX default is axis 1: the output channel of a MatMul weight, but not of a Conv weight. Other
    systems have other defaults or none. A reader cannot see whether axis 1 is meant or was forgotten. TensorRT before
    10.15 may read axis 0 instead (10.10 does, 10.15 does not).

    Bad: DequantizeLinear (conv_weight, scales, zero_points).

    Good: DequantizeLinear <axis = 0> (conv_weight, scales, zero_points).
    """

    code = "QS002"
    name = "spec.axis-implicit"
    affects = impacts(onnx=ADVICE, tensorrt=CAUTION)
    remedy = "write the axis attribute, even if it is 1"
    offers = (AXIS,)
    VALID = examples("""
        axis is written:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
        one scale needs no axis:
            agraph (float[1,4] x) => (float[1,4] y) <float[1] s = {0.1}, int8[1] z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        two scales, no axis:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
        two scales, no axis, for a release that takes axis 0 [tensorrt-10.10]:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for a scale of several elements on a node without the attribute."""
        for entry in context.qdq.nodes:
            shape = entry.scale_shape
            several = shape not in {None, (), (1,)}
            if several and not entry.axis_given and entry.node.scope.opset >= FIRST_OPSET_WITH_AXIS:
                assert shape is not None
                impact = _impact(context, entry, target)
                other = f", and {target.title} takes {target.default_axis}" if impact is not None else ""
                message = (
                    f"scale of shape {dims(shape)} without an axis: this {short(entry)} uses the default, 1{other}"
                )
                fix = AXIS.fix(f"writes axis = {entry.axis}", _write, entry)
                yield Fault(
                    message, entry.node, entry.scale, found="absent", expected="axis", impact=impact, fixes=(fix,)
                )


def _impact(context: RuleContext, entry: QdqNode, target: Target) -> Impact | None:
    """Return the impact of a default axis that differs from the ONNX default; None if the two are equal."""
    axis, scale, shape = target.default_axis, entry.scale_shape, context.data_shape(entry)
    assert scale is not None
    if axis is None or len(scale) != 1:
        return None
    # If the other axis has as many indices as there are scales, the model builds and quantizes that axis.
    return SILENT if not shape or shape[axis] == scale[0] else REFUSED


def _write(entry: QdqNode, draft: Draft) -> None:
    draft.set_attribute(entry.node, "axis", entry.axis)
