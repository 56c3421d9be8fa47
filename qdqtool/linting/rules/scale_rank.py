"""QA207: scales whose rank has no meaning."""

from qdqtool.linting.rules.fixes.scales import SCALAR, scalar_fixes
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import dims
from qdqtool.models.targets import Target


class ScaleRank(Rule):
    """A scale has rank 0, rank 1, or the rank of the data.

    Why it matters: a scale of rank 0, or of shape [1], is per-tensor. Rank 1 is per-axis, and the rank of the data
    means blocks. A scale of shape [1, 1], which some exporters write after broadcasting, is none of these. In TensorRT,
    scalar data needs a scalar scale.

    Bad: a scale of shape [1, 1] for an image of rank 4.

    Good: a scalar.
    """

    code = "QA207"
    name = "axis.scale-rank"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "make a one-element scale a scalar, and a per-axis scale one-dimensional"
    offers = (SCALAR,)
    VALID = examples("""
        a scale of one element:
            agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1] s = {0.1}, int8[1] z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        rank 2 for data of rank 4:
            agraph (float[1,1,2,2] x) => (float[1,1,2,2] y) <float[1,1] s = {0.1}, int8[1,1] z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the ranks of scale and data."""
        for entry in context.qdq.nodes:
            scale, shape = entry.scale_shape, context.data_shape(entry)
            if scale is None or shape is None or len(scale) in {0, len(shape)}:
                continue
            if len(scale) == 1 and (shape or target.family != "tensorrt"):
                continue
            message = f"scale has shape {dims(scale)}, the data {dims(shape)}"
            expected = f"rank 0, 1 or {len(shape)}" if shape else "rank 0"
            fixes = scalar_fixes(entry)
            yield Fault(message, entry.node, entry.scale, found=f"rank {len(scale)}", expected=expected, fixes=fixes)
