"""QM608: constants that a caller could replace."""

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import short
from qdqtool.models.graph.edits.edit import AddInitializer, RemoveInitializer
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target

# Before this IR version, ONNX demands that every initializer is also a graph input.
FIRST_IR_WITH_PLAIN_INITIALIZERS = 4

FIXED = Offer("safe", "removes the name from the graph inputs; the stored value stays")


class Overridable(Rule):
    """Scales, zero points and quantized weights are no graph inputs.

    Why it matters: from IR version 4 on, an initializer that is also a graph input is only a default: the caller may
    replace it. ONNX Runtime allows this; TensorRT removes the input and keeps the stored value.

    Bad: a scale that is both initializer and graph input.

    Good: a scale that is only an initializer.
    """

    code = "QM608"
    name = "model.overridable-parameter"
    affects = impacts(tensorrt=SUSPECT)
    remedy = "remove the name from the graph inputs"
    offers = (FIXED,)
    VALID = examples("""
        an initializer alone:
            $ONE_PAIR
    """)
    INVALID = examples("""
        a weight with a default:
            agraph (float[1,2] x, int8[2,2] w = {1,2,3,4}) => (float[1,2] y) <float s = {0.1}> {
                wd = DequantizeLinear (w, s)
                y = MatMul (x, wd)
            }
        a scale with a default:
            agraph (float[1,4] x, float s = {0.1}) => (float[1,4] y) <int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the scale, zero point and stored codes of every Q and DQ; report each tensor once."""
        if context.model.proto.ir_version < FIRST_IR_WITH_PLAIN_INITIALIZERS:
            return
        seen: set[Value] = set()
        for entry in context.qdq.nodes:
            # Float weights are not reported: exporters of old models list all of them as inputs.
            codes = None if entry.is_quantize else entry.data
            for what, value in (("scale", entry.scale), ("zero point", entry.zero_point), ("weight", codes)):
                if value is None or not value.is_input or value.initializer is None or value in seen:
                    continue
                seen.add(value)
                message = f"{what} '{value.name}' of this {short(entry)} is also a graph input"
                found = "initializer and graph input"
                fix = FIXED.fix(f"removes '{value.name}' from the graph inputs", _close, value)
                yield Fault(message, entry.node, value, found=found, expected="an initializer alone", fixes=(fix,))


def _close(value: Value, draft: Draft) -> None:
    assert value.initializer is not None
    draft.edits.append(RemoveInitializer(value.scope.path, value.name))
    draft.edits.append(AddInitializer(value.scope.path, value.initializer))
