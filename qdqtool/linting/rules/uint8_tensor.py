"""QT410: uint8 inputs, such as images, that are moved before they are converted."""

from onnx import TensorProto

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.targets import Target


class Uint8Tensor(Rule):
    """A uint8 input goes into a Cast before anything else.

    Why it matters: TensorRT has uint8 for the inputs and outputs of a network only. Layers that move data take int8,
    int32 and floats, and the parser stops at the first of them that reads uint8.

    Bad: an image in uint8 through Transpose and then Cast.

    Good: the same through Cast and then Transpose, which moves the same values.
    """

    code = "QT410"
    name = "target.uint8-input"
    affects = impacts(tensorrt=REFUSED)
    remedy = "cast the input to float first, and move it after"
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
        """Look at what reads the uint8 inputs of the model."""
        for value in context.view.main.values.values():
            if not value.is_input or context.elem_type(value) != TensorProto.UINT8:
                continue
            for use in value.uses:
                if ops.traits(use.node).lacks_uint8:
                    message = f"{use.node.op_type} reads the uint8 input '{value.name}'"
                    yield Fault(message, use.node, value, found=use.node.op_type, expected="Cast")
