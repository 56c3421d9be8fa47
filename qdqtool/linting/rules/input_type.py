"""QT413: inputs of types that their operator does not accept."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, listed
from qdqtool.models.graph.index.signature import SignatureOperand
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target

_CODES = get_target("onnx").quantize_types


class InputType(Rule):
    """The inputs of a node have types that its operator accepts at the opset of the model.

    Why it matters: ONNX defines the accepted types for every operator and opset. onnx's checker and ONNX Runtime refuse
    a model with other types. TensorRT's parser ignores the opset and has its own list of types.

    Bad: Relu of integers at opset 13; a float condition of a Where.

    Good: an opset in which the operator accepts the type, or a Cast before the node.
    """

    code = "QT413"
    name = "target.input-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = "put a Cast in front of the input, or raise the opset of the model to one that allows the type"
    VALID = examples("""
        indices of two types:
            agraph (float[4,4] x, int64[2] i, int32[1] j) => (float[1,4] y) {
                g = Gather (x, i)
                y = Gather (g, j)
            }
    """)
    INVALID = examples("""
        Relu of integers before opset 14:
            <ir_version: 8, opset_import: ["": 13]>
            agraph (int64[1,4] x) => (int64[1,4] y) {
                y = Relu (x)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the input types of every node with the types that its operator accepts."""
        products = {product.node for product in context.products}
        for node, signature in context.operators:
            for index, value in enumerate(node.inputs):
                operand = signature.operand(index)
                given = context.elem_type(value)
                if value is None or operand is None or given is None or given in operand.types:
                    continue
                # Rule QS007 reports codes of a Q that no DQ reads, and rule QL311 codes that products read.
                maker = context.qdq.maker(value)
                is_reported = (maker is not None and maker.is_quantize) or (node in products and kind(given) in _CODES)
                if not is_reported:
                    yield _fault(node, value, given, operand)
                break


def _fault(node: NodeView, value: Value, given: int, operand: SignatureOperand) -> Fault:
    message = f"{node.op_type} at opset {node.scope.opset} does not accept {kind(given)} as input '{operand.name}'"
    return Fault(message, node, value, found=kind(given), expected=listed(map(kind, operand.types)))
