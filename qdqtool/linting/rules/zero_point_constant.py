"""QP107: computed zero points that TensorRT does not fold."""

from qdqtool.linting.rules.fixes.scales import STORED, folded_fixes
from qdqtool.linting.rules.support.rule import REFUSED, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, short
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target


class ZeroPointConstant(Rule):
    """A zero point is an initializer or a Constant, with at most Identity or Cast after it.

    Why it matters: TensorRT folds a computed scale but not a computed zero point; the builder stops with "has
    `zero_point` which is not an initializer".

    Bad: a zero point made by ConstantOfShape or Sub.

    Good: a zero point that is stored as an initializer.
    """

    code = "QP107"
    name = "parameters.zero-point-constant"
    affects = impacts(tensorrt=REFUSED)
    remedy = "store the zero point as an initializer"
    offers = (STORED,)
    VALID = examples("""
        behind an Identity:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z0 = {0}> {
                z = Identity (z0)
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        a graph input for fp8, which TensorRT does not read:
            agraph (float[1,4] x, float8e4m3fn z) => (float[1,4] y) <float s = {0.1}> {
                $PAIR_TO_Y
            }
        made by ConstantOfShape:
            agraph (float[1,4] x) => (float[1,4] y) <float[1] s = {0.1}, int64[1] n = {1}> {
                z = ConstantOfShape <value = int8[1] {0}> (n)
                $PAIR_TO_Y
            }
        a graph input:
            agraph (float[1,4] x, int8 z) => (float[1,4] y) <float s = {0.1}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Follow each zero point back through Identity and Cast."""
        for entry in context.qdq.nodes:
            zero = entry.zero_point
            origin = _origin(zero)
            if origin is None or context.constants.direct(origin) is not None:
                continue
            assert zero is not None
            if origin.is_input and origin.scope.is_function:
                continue
            maker = f"made by {origin.producer.op_type}" if origin.producer is not None else "an input"
            message = f"zero point '{zero.name}' of this {short(entry)} is {maker}"
            expected, fixes = "an initializer or a Constant", folded_fixes(context, entry, 2)
            # TensorRT ignores every zero point of fp8 and computes with 0.
            impact = SUSPECT if kind(entry.quantized_type).startswith("float8") else None
            yield Fault(message, entry.node, zero, found=maker, expected=expected, impact=impact, fixes=fixes)


def _origin(value: Value | None) -> Value | None:
    # The number of steps is limited: the nodes of an unsound graph may form a cycle.
    for _ in range(64):
        if value is None or value.producer is None or not value.producer.is_op("Identity", "Cast"):
            return value
        value = value.producer.input(0)
    return None
