"""QA208: an axis that the data does not have."""

from qdqtool.linting.rules.support.extents import reads_axis_1
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims
from qdqtool.models.targets import Target


class AxisRange(Rule):
    """The data has the axis that the node names.

    Why it matters: onnx's checker does not check the axis. ONNX Runtime fails at the first run and TensorRT at the
    build. If the tensor has only one scale, the axis is ignored.

    Bad: axis 4 on a tensor of rank 4.

    Good: an axis from 0 to rank - 1.
    """

    code = "QA208"
    name = "axis.out-of-range"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "set the axis that the scales belong to, counted from 0"
    VALID = examples("""
        with one scale the axis says nothing:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear <axis = 7> (x, s, z)
                y = DequantizeLinear <axis = 7> (q, s, z)
            }
        a negative axis counts from the end:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = -1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        axis 2 of a matrix:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 2> (w, ws, wz)
                y = MatMul (x, wd)
            }
        axis -3 of a matrix:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = -3> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the axis with the rank if there is more than one scale."""
        for entry in context.qdq.nodes:
            if reads_axis_1(entry, target):
                continue
            shape = context.data_shape(entry)
            if shape is None or entry.scale_shape in {None, (), (1,)} or -len(shape) <= entry.axis < len(shape):
                continue
            message = f"axis is {entry.axis}, the data has shape {dims(shape)}"
            expected = f"{-len(shape)} to {len(shape) - 1}" if shape else "no axis on a scalar"
            yield Fault(message, entry.node, entry.data, found=str(entry.axis), expected=expected)
