"""QT417: stored codes without dimensions."""

from qdqtool.linting.rules.fixes.unquantize import FLOAT, float_fix
from qdqtool.linting.rules.support.rule import REFUSED, Example, Fault, Faults, Rule, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

MODEL = """
            agraph (float[2,4] x) => (float[2,4] y) <int8%s c = {5}, float s = {0.1}, int8 z = {0}> {
                d = DequantizeLinear (c, s, z)
                y = Mul (x, d)
            }
            """


class ScalarCodes(Rule):
    """Stored codes have at least one dimension.

    Why it matters: ONNX Runtime's quantizer stores the scalar operand of a Mul, such as the scaling factor of
    attention, as a code without dimensions. TensorRT's parser inserts a reshape between such a code and its DQ. The
    builder then reports that a quantized constant must be the input of a DQ.

    Bad: an int8 initializer of shape [] behind a DQ.

    Good: the scalar in float, or an int8 initializer of shape [1].
    """

    code = "QT417"
    name = "target.scalar-codes"
    affects = impacts(tensorrt=REFUSED)
    remedy = "store the scalar as float; its quantization makes no layer faster"
    offers = (FLOAT,)
    VALID = (Example("codes of one dimension", MODEL % "[1]"),)
    INVALID = (Example("a code without dimensions", MODEL % ""),)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the stored data of every DQ."""
        for entry in context.qdq.dequantizers():
            stored = context.constants.direct(entry.data) if entry.data is not None else None
            if stored is not None and not stored.dims:
                yield _fault(entry)


def _fault(entry: QdqNode) -> Fault:
    assert entry.data is not None
    message = f"the code '{entry.data.name}' of this DQ has no dimensions"
    expected = "a float scalar, or codes of shape [1]"
    return Fault(message, entry.node, entry.data, found="shape []", expected=expected, fixes=(float_fix(entry),))
