"""QE701: models that TensorRT's own parser refuses."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target

_MICROSOFT = "com.microsoft"


class ParserRefusal(Rule):
    """The parser of TensorRT for RTX, where it is installed, takes the model.

    Why it matters: the other rules judge quantization. A model may be refused for other reasons: an operator that
    TensorRT does not have, a type that it does not hold, a shape that is computed from values. Where the package
    tensorrt-rtx is installed, `validate --target tensorrt-rtx` asks its parser as well, in a process of its own and
    beside the rules. What a rule has reported already at the same place is not repeated. Models with more than 1 GB of
    weights are asked about with `--parser` only; `--no-parser` asks about none.

    Bad: ScatterND with a reduction, SoftmaxCrossEntropyLoss, float64 inputs, Unsqueeze with computed axes.

    Good: a model that the parser reads.
    """

    code = "QE701"
    name = "engine.parser-refusal"
    affects = impacts(tensorrt_rtx=REFUSED)
    remedy = "export the model without what the message names; `--no-parser` leaves the parser out"
    asks_parser = True
    VALID = examples("""
        a float model:
            agraph (float[1,4] x) => (float[1,4] y) {
                y = Relu (x)
            }
    """)
    # The parser is the judge: an example could only show what it said when it was asked.
    INVALID = ()

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Report each thing that the parser has against the model, at its node."""
        for fault in context.parser_faults:
            node = fault.node(context.nodes)
            hint = fault.hint
            if node is not None and node.domain == _MICROSOFT:
                hint = "ONNX Runtime made this operator: export the model without its graph optimizations"
            # Where the node is not found in the file, its name still helps.
            where = f"node '{fault.name}': " if node is None and fault.name else ""
            message = f"{fault.title} refuses it: {where}{fault.reason}{f' ({hint})' if hint else ''}"
            yield Fault(message, node, found=fault.reason)
