"""QM606: stored tensors of types that the target cannot import."""

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, legal_types
from qdqtool.models.graph.edits.edit import RemoveInitializer
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target

TAKEN_OUT = Offer("safe", "removes an initializer that nothing reads")


class InitializerType(Rule):
    """Every stored tensor has a type that the target can import.

    Why it matters: TensorRT imports all initializers, even unused ones. A single int16 or uint4 initializer, left over
    from an earlier quantization, is enough to refuse the model.

    Bad: an unused int16 zero point.

    Good: a model without unused initializers.
    """

    code = "QM606"
    name = "model.initializer-type"
    affects = impacts(tensorrt=REFUSED)
    remedy = "remove the initializer if nothing reads it; otherwise store it in another type"
    offers = (TAKEN_OUT,)
    VALID = examples("""
        an unused float:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}, float unused = {1}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        an unused int16:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}, int16 left_over = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every initializer, except those that another rule reports at the Q or DQ that reads them."""
        legal = target.initializer_types
        assert legal is not None
        for value in context.view.values():
            tensor = value.initializer
            if tensor is None or kind(tensor.data_type) in legal or _reported(context, value):
                continue
            found = kind(tensor.data_type)
            unread = "" if value.uses else ", and nothing reads it"
            message = f"initializer '{value.qualified_name}' has type {found}{unread}"
            node = value.uses[0].node if value.uses else None
            expected = legal_types(legal, found, target)
            yield Fault(message, node, value, found=found, expected=expected, fixes=_fixes(value))


def _fixes(value: Value) -> tuple[Fix, ...]:
    if value.uses or value.is_output or value.is_input:
        return ()
    return (TAKEN_OUT.fix(f"removes initializer '{value.name}'", _take_out, value),)


def _take_out(value: Value, draft: Draft) -> None:
    draft.edits.append(RemoveInitializer(value.scope.path, value.name))


def _reported(context: RuleContext, value: Value) -> bool:
    return any(context.qdq.get(use.node) is not None for use in value.uses)
