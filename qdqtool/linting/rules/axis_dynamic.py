"""QA209: per-axis scales on an axis whose extent is unknown."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims
from qdqtool.models.targets import Target


class AxisDynamic(Rule):
    """Per-axis scales belong to an axis of fixed extent.

    Why it matters: TensorRT must know the number of channels at build time. For a dynamic axis the build stops with
    "ScaleMode is illegal".

    Bad: scales on axis 1 of an input [1, C] with C dynamic.

    Good: fix the dimension, or use one scale for the tensor.
    """

    code = "QA209"
    name = "axis.dynamic"
    affects = impacts(tensorrt=REFUSED)
    remedy = "fix the dimension in the model, or use one scale for the whole tensor"
    VALID = examples("""
        the dynamic axis is another one:
            agraph (float[N,2] x) => (float[N,2] y) <float[2] s = {0.1, 0.2}, int8[2] z = {0,0}> {
                q = QuantizeLinear <axis = 1> (x, s, z)
                y = DequantizeLinear <axis = 1> (q, s, z)
            }
    """)
    INVALID = examples("""
        scales on a dynamic axis:
            agraph (float[1,C] x) => (float[1,C] y) <float[2] s = {0.1, 0.2}, int8[2] z = {0,0}> {
                q = QuantizeLinear <axis = 1> (x, s, z)
                y = DequantizeLinear <axis = 1> (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for 1-D scales on a dimension without a number."""
        for entry in context.qdq.nodes:
            scale, shape, axis = entry.scale_shape, context.data_shape(entry), context.axis(entry)
            if scale is None or len(scale) != 1 or scale == (1,) or axis is None:
                continue
            assert shape is not None
            if not isinstance(shape[axis], int):
                message = f"per-axis scales on axis {axis}, which is dynamic in {dims(shape)}"
                found = str(shape[axis] or "?")
                yield Fault(message, entry.node, entry.data, found=found, expected="a fixed dimension")
