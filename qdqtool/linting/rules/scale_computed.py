"""QP111: scales that are computed from stored constants."""

from qdqtool.linting.rules.fixes.scales import STORED, folded_fixes
from qdqtool.linting.rules.support.rule import ADVICE, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import short
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target


class ScaleComputed(Rule):
    """A constant scale is stored as an initializer or Constant.

    Why it matters: TensorRT folds a scale that Cast, Mul or Reshape computes from constants, but checks only the values
    of stored scales. So a computed scale that is zero or negative builds without a message. Other tools do not
    recognize a computed scale.

    Bad: a scale that a Mul computes from two initializers.

    Good: the product, stored as an initializer.
    """

    code = "QP111"
    name = "parameters.scale-computed"
    affects = impacts(tensorrt=ADVICE)
    remedy = "store the value of the scale as an initializer"
    offers = (STORED,)
    VALID = examples("""
        an initializer:
            $ONE_PAIR
    """)
    INVALID = examples("""
        a product:
            agraph (float[1,4] x) => (float[1,4] y) <float a = {0.5}, float b = {0.2}, int8 z = {0}> {
                s = Mul (a, b)
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find scales that fold to a constant but are not stored; report each once."""
        seen: set[Value] = set()
        for entry in context.qdq.nodes:
            scale = entry.scale
            if scale is None or scale in seen or scale.producer is None:
                continue
            seen.add(scale)
            # A DQ makes two-level scales, as in NVFP4: fp8 block scales times one float scale.
            made_by_dq = context.qdq.maker(scale) is not None
            if made_by_dq or scale.producer.is_op("Constant") or not context.constants.is_constant(scale):
                continue
            message = f"scale '{scale.name}' of this {short(entry)} is computed by {scale.producer.op_type}"
            found = scale.producer.op_type
            fixes = folded_fixes(context, entry, 1)
            yield Fault(message, entry.node, scale, found=found, expected="an initializer", fixes=fixes)
