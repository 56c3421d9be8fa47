"""QT414: inputs of different types where the operator needs one type."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind
from qdqtool.models.graph.index.signature import Signature
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target

# Measured with TensorRT for RTX: each operator with pairs of float32, float16, int32 and int64, and with constants.
_REFUSED_BY_TENSORRT = frozenset(
    ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Equal", "Less", "Greater", "Concat", "Where", "PRelu"]
)


class MixedTypes(Rule):
    """The inputs of a node have the same type if its operator needs one type.

    Why it matters: ONNX does not convert types by itself. If a part of a model is converted to float16 by hand, or a DQ
    gets a float16 scale, one Add may read a float32 and a float16 tensor. ONNX Runtime, TensorRT and onnx's checker
    refuse such a model.

    Bad: Add of a float32 and a float16 tensor; Concat of codes and floats.

    Good: a Cast of the input with the other type.
    """

    code = "QT414"
    name = "target.mixed-types"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "put a Cast in front of the input with the other type, or store the constant in the type of the others"
    VALID = examples("""
        a Cast in between:
            agraph (float[1,4] x, float16[1,4] h) => (float[1,4] y) {
                c = Cast <to = 1> (h)
                y = Add (x, c)
            }
    """)
    INVALID = examples("""
        float32 and float16 in one Add:
            agraph (float[1,4] x, float16[1,4] h) => (float[1,4] y) {
                y = Add (x, h)
            }
        a DQ with a float16 scale beside float32:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, float16 hs = {11878}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, hs, z)
                y = Mul (d, x)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the inputs of every node with each other."""
        # Rule QL311 compares the operands of products.
        products = {product.node for product in context.products}
        for node, signature in context.operators:
            if node not in products and (target.family != "tensorrt" or node.op_type in _REFUSED_BY_TENSORRT):
                yield from _faults(context, node, signature)


def _faults(context: RuleContext, node: NodeView, signature: Signature) -> Faults:
    """Yield the first contradiction in a node."""
    first: dict[str, tuple[Value, int]] = {}
    for index, value in enumerate(node.inputs):
        operand = signature.operand(index)
        given = context.elem_type(value)
        if value is None or given is None or operand is None or not operand.is_homogeneous:
            continue
        other, wanted = first.setdefault(operand.variable, (value, given))
        if wanted != given and given in operand.types and wanted in operand.types:
            message = (
                f"{node.op_type} takes inputs of one type; '{other.name}' is {kind(wanted)} "
                f"and '{value.name}' is {kind(given)}"
            )
            yield Fault(message, node, value, found=kind(given), expected=kind(wanted))
            break
