"""QA203: block scales whose shape does not divide the data into blocks."""

from qdqtool.linting.rules.fixes.reblock import FITTED, PER_AXIS, REBLOCKED, SPLIT, reblock_fixes
from qdqtool.linting.rules.fixes.scales import SCALAR, scalar_fixes
from qdqtool.linting.rules.support.blocks import Blocks, blocks
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims
from qdqtool.models.targets import Target


class BlockShape(Rule):
    """A block scale divides only the axis that the node names into blocks.

    Why it matters: onnx's checker does not check block scales. TensorRT has three more limits. Only the last two axes
    can have blocks. A separate scale for every element is refused. The number of blocks must divide the extent of the
    axis.

    Bad: a scale [2, 2] for a weight [4, 4]: two axes in blocks.

    Good: a scale [2, 4] with axis 0 and block_size 2.
    """

    code = "QA203"
    name = "axis.block-shape"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = (
        "make blocks of the second to last axis (the rows of a MatMul weight), and pad it to whole blocks;"
        " `qdqtool normalize MODEL -o OUT` corrects the axis attribute if only this is wrong"
    )
    offers = (SCALAR, PER_AXIS, FITTED, SPLIT, REBLOCKED)
    VALID = examples("""
        blocks of 2 rows:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        two axes in blocks:
            agraph (float[1,4] x) => (float[1,4] y)
            <int8[4,4] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4},
             int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, ws, wz)
                y = MatMul (x, wd)
            }
        the scale divides axis 0, the node says axis 1:
            agraph (float[1,4] x) => (float[1,2] y)
            <int8[4,2] w = {1,2,3,4,5,6,7,8}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 1, block_size = 2> (w, ws, wz)
                y = MatMul (x, wd)
            }
        two blocks of an axis of 5 [tensorrt, tensorrt-rtx]:
            agraph (float[1,5] x) => (float[1,2] y)
            <int8[5,2] w = {1,2,3,4,5,6,7,8,9,10}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 3> (w, ws, wz)
                y = MatMul (x, wd)
            }
        a scale for every element [tensorrt, tensorrt-rtx]:
            agraph (float[1,2] x) => (float[1,2] y)
            <int8[2,2] w = {1,2,3,4}, float[2,2] ws = {0.1,0.2,0.3,0.4}, int8[2,2] wz = {0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 1> (w, ws, wz)
                y = MatMul (x, wd)
            }
        blocks of the first of three axes [tensorrt, tensorrt-rtx]:
            agraph (float[4,1,2] x) => (float[4,1,2] y)
            <int8[4,2,2] w = {1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8}, float[2,2,2] ws = {0.1,0.2,0.3,0.4,0.1,0.2,0.3,0.4},
             int8[2,2,2] wz = {0,0,0,0,0,0,0,0}> {
                wd = DequantizeLinear <axis = 0, block_size = 2> (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the extents of each block scale with the extents of the data."""
        for found in blocks(context):
            problem = _problem(found, context.axis(found.entry), tensorrt=target.family == "tensorrt")
            if problem is not None:
                message, expected = problem
                words = f"{message}: scale {dims(found.scale)} on data {dims(found.shape)}"
                node, scale = found.entry.node, found.entry.scale
                fixes = scalar_fixes(found.entry) or reblock_fixes(found)
                yield Fault(words, node, scale, found=dims(found.scale), expected=expected, fixes=fixes)


def _problem(found: Blocks, axis: int | None, *, tensorrt: bool) -> tuple[str, str] | None:
    """Return what is wrong and what would be right, or None for a legal scale."""
    if len(found.blocked) > 1:
        return f"axes {dims(found.blocked)} are in blocks at once", "one blocked axis"
    if not found.blocked:
        return ("a scale for every element", "blocks of at least 2") if tensorrt else None
    (blocked,) = found.blocked
    extent, count = found.shape[blocked], found.scale[blocked]
    if axis is not None and axis != blocked:
        return f"the attribute axis is {found.entry.axis}, but the scale divides axis {blocked}", f"axis {blocked}"
    if count > extent:
        return "more blocks than elements", f"at most {extent} blocks"
    return _tensorrt_problem(found, blocked) if tensorrt else None


def _tensorrt_problem(found: Blocks, blocked: int) -> tuple[str, str] | None:
    extent, count = found.shape[blocked], found.scale[blocked]
    if set(found.scale) == {1}:
        # Measured with TensorRT for RTX: "ScaleMode is illegal", also with block_size.
        return "one scale of as many dimensions as the data", "a scalar, or several scales"
    if blocked < len(found.shape) - 2:
        return f"axis {blocked} is in blocks", "blocks on the last or second to last axis"
    if extent % count:
        return f"axis {blocked} does not divide into whole blocks", f"a number of blocks that divides {extent}"
    return None
