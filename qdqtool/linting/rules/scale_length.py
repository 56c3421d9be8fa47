"""QA205: too few or too many per-axis scales."""

from qdqtool.linting.rules.support.blocks import vector_blocks
from qdqtool.linting.rules.support.extents import reads_axis_1
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims
from qdqtool.models.targets import Target


class ScaleLength(Rule):
    """A tensor has one scale, or exactly one for each index of the axis.

    Why it matters: onnx's checker does not compare the lengths, and ONNX Runtime fails at the first run. TensorRT
    reports "not equal to the number of output channels", even if the axis is not the output channel.

    Bad: three scales for the four channels of an axis; an empty scale.

    Good: four scales for the four channels.
    """

    code = "QA205"
    name = "axis.scale-length"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "give one scale for each index of the axis, or set the axis that the scales were made for"
    VALID = examples("""
        two channels, two scales:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        two channels, three scales:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[3] ws = {0.1, 0.2, 0.3}, int8[3] wz = {0,0,0}> {
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
        no scale at all:
            agraph (float[1,4] x) => (float[1,4] y) <float[0] s = {}, int8[0] z = {}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the length of each 1-D scale with the extent of the axis."""
        tensorrt = target.family == "tensorrt"
        for entry in context.qdq.nodes:
            scale, shape, axis = entry.scale_shape, context.data_shape(entry), context.axis(entry)
            if (not tensorrt and vector_blocks(context, entry)) or reads_axis_1(entry, target):
                continue
            if scale is None or len(scale) != 1 or scale == (1,) or not isinstance(scale[0], int):
                continue
            extent = shape[axis] if shape is not None and axis is not None else None
            if scale != (0,) and (not isinstance(extent, int) or extent == scale[0]):
                continue
            where = f"axis {entry.axis} of data of shape {dims(shape)}" if shape is not None else "the data"
            message = f"{scale[0]} scales for {where}"
            expected = "1" if extent is None else f"1 or {extent}"
            yield Fault(message, entry.node, entry.scale, found=str(scale[0]), expected=expected)
