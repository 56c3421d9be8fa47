"""QE701: models that TensorRT's parser refuses."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.ops.microsoft import WRITTEN_AS_ONNX, WRITTEN_HINT
from qdqtool.models.targets import Target

_MICROSOFT = "com.microsoft"


class ParserRefusal(Rule):
    """The parser of TensorRT for RTX accepts the model (checked if the package is installed).

    Why it matters: the other rules check quantization. A model may be refused for other reasons: an operator or type
    that TensorRT does not have, or a shape that is computed from values. If the package tensorrt-rtx is installed,
    `validate --target tensorrt-rtx` also runs its parser, in a separate process. A fault that a rule already reported
    at the same place is not repeated. Models with more than 1 GB of weights are parsed only with `--parser`;
    `--no-parser` turns the parser off.

    Bad: ScatterND with a reduction, SoftmaxCrossEntropyLoss, float64 inputs, Unsqueeze with computed axes.

    Good: a model that the parser accepts.
    """

    code = "QE701"
    name = "engine.parser-refusal"
    affects = impacts(tensorrt_rtx=REFUSED)
    remedy = "export the model without the operator or type in the message; `--no-parser` turns the parser off"
    asks_parser = True
    VALID = examples("""
        a float model:
            agraph (float[1,4] x) => (float[1,4] y) {
                y = Relu (x)
            }
    """)
    # No example: the answer depends on the installed parser.
    INVALID = ()

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Report each fault that the parser found in the model, at its node."""
        for fault in context.parser_faults:
            node = fault.node(context.nodes)
            hint = fault.hint
            if node is not None and node.domain == _MICROSOFT and node.op_type in WRITTEN_AS_ONNX:
                hint = WRITTEN_HINT
            elif node is not None and node.domain == _MICROSOFT and "`" not in (hint or ""):
                hint = "ONNX Runtime made this operator: export the model without its graph optimizations"
            # If the node is not found in the file, the message names it.
            where = f"node '{fault.name}': " if node is None and fault.name else ""
            message = f"{fault.title} refuses it: {where}{fault.reason}{f' ({hint})' if hint else ''}"
            yield Fault(message, node, found=fault.reason)
