"""QT410: uint8 inputs, such as images, that are moved before they are converted."""

from onnx import TensorProto

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.targets import Target


class Uint8Tensor(Rule):
    """Only a Cast reads a uint8 input.

    Why it matters: TensorRT supports uint8 only for the inputs and outputs of a network. Layers that move data accept
    int8, int32 and floats. The parser stops at the first layer that reads uint8.

    Bad: a uint8 image, Transpose, Cast.

    Good: a uint8 image, Cast, Transpose. The values are the same.
    """

    code = "QT410"
    name = "target.uint8-input"
    affects = impacts(tensorrt=REFUSED)
    remedy = "cast the input to float in front of this operator"
    VALID = examples("""
        an image that is converted first:
            agraph (uint8[1,8,8,4] x) => (float[1,4,8,8] y) {
                f = Cast <to = 1> (x)
                y = Transpose <perm = [0, 3, 1, 2]> (f)
            }
    """)
    INVALID = examples("""
        an image that is moved first:
            agraph (uint8[1,8,8,4] x) => (float[1,4,8,8] y) {
                t = Transpose <perm = [0, 3, 1, 2]> (x)
                y = Cast <to = 1> (t)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the nodes that read uint8 inputs of the model."""
        for value in context.view.main.values.values():
            if not value.is_input or context.elem_type(value) != TensorProto.UINT8:
                continue
            for use in value.uses:
                if ops.traits(use.node).lacks_uint8:
                    message = f"{use.node.op_type} reads the uint8 input '{value.name}'"
                    yield Fault(message, use.node, value, found=use.node.op_type, expected="Cast")
