"""QS013: nodes whose inputs have shapes that do not fit their operator."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target

# Rule QS012 compares declared types, rule QS011 looks at output_dtype.
_OTHER_RULES = "Inferred elem type differs", "output_dtype "


class ShapeMismatch(Rule):
    """The shapes of a node's inputs and its attributes fit its operator.

    Why it matters: operators do not accept matrices whose extents do not fit, or an axis that the data does not have.
    ONNX Runtime and onnx's checker refuse the model. If only a declared shape is wrong, ONNX Runtime corrects it. Rule
    QS014 reports what onnx's shape inference does not check, such as the channels of a Conv.

    Bad: a MatMul of matrices [2, 3] and [4, 5]; Softmax on axis 7 of a matrix.

    Good: shapes that fit the operators, and no value_info that contradicts them.
    """

    code = "QS013"
    name = "spec.shape-mismatch"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = "give the input the shape that the operator needs; remove value_info with another shape"
    VALID = examples("""
        matrices that fit:
            agraph (float[2,3] x, float[3,5] w) => (float[2,5] y) {
                y = MatMul (x, w)
            }
    """)
    INVALID = examples("""
        parts that do not add up:
            agraph (float[2,6] x) => (float[2,N] y, float[2,M] z) <int64[2] parts = {1, 2}> {
                y, z = Split <axis = 1> (x, parts)
            }
        an output declared with another extent [onnx]:
            agraph (float[2,3] x) => (float[2,4] y) {
                y = Relu (x)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Report the contradictions that onnx's shape inference finds."""
        scopes = {scope.path: scope for scope in context.view.scopes}
        types, corrects = context.types, target.family == "ort-cpu"
        for found in types.contradictions_of_inferred if corrects else types.contradictions:
            if not found.text.startswith(_OTHER_RULES):
                node = scopes[found.scope].nodes[found.position]
                yield Fault(f"shape inference: {found.text}", node, found=found.text)
