"""QM616: Loops without a condition whose body reads the condition."""

import numpy as np

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

CONDITION = 1
"""Index of the condition among the inputs of a Loop and of its body."""

GIVEN = Offer("safe", "gives the Loop the condition that ONNX assumes: true")


class LoopCondition(Rule):
    """A Loop has a condition if its body reads the condition.

    Why it matters: in ONNX an absent condition is true. TensorRT's parser makes no tensor for it, and stops with "Node
    input was not registered" at the node of the body that reads it.

    Bad: ``Loop (n, , x)`` with a body that begins with ``Identity (go)``.

    Good: ``Loop (n, true, x)``, with a bool initializer; or a body that makes its own condition.
    """

    code = "QM616"
    name = "model.loop-condition"
    affects = impacts(tensorrt=REFUSED)
    remedy = "give the Loop a bool initializer with value true as its condition"
    offers = (GIVEN,)
    VALID = examples("""
        the condition is given:
            agraph (float[1,4] x) => (float[1,4] y) <int64 n = {2}, bool yes = {1}, float s = {0.1}, int8 z = {0}> {
                y = Loop (n, yes, x) <
                    body = b (int64 i, bool go, float[1,4] v) => (bool on, float[1,4] w) {
                        on = Identity (go)
                        q = QuantizeLinear (v, s, z)
                        w = DequantizeLinear (q, s, z)
                    }
                >
            }
        the body makes its own:
            agraph (float[1,4] x) => (float[1,4] y) <int64 n = {2}, float s = {0.1}, int8 z = {0}> {
                y = Loop (n, , x) <
                    body = b (int64 i, bool go, float[1,4] v) => (bool on, float[1,4] w) {
                        on = Constant <value = bool {1}> ()
                        q = QuantizeLinear (v, s, z)
                        w = DequantizeLinear (q, s, z)
                    }
                >
            }
    """)
    INVALID = examples("""
        no condition, which the body reads:
            agraph (float[1,4] x) => (float[1,4] y) <int64 n = {2}, float s = {0.1}, int8 z = {0}> {
                y = Loop (n, , x) <
                    body = b (int64 i, bool go, float[1,4] v) => (bool on, float[1,4] w) {
                        on = Identity (go)
                        q = QuantizeLinear (v, s, z)
                        w = DequantizeLinear (q, s, z)
                    }
                >
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every body of a Loop without condition."""
        for scope in context.view.scopes:
            loop = scope.owner
            if loop is None or not loop.is_op("Loop") or loop.input_name(CONDITION):
                continue
            names = scope.input_names()
            condition = scope.values.get(names[CONDITION]) if len(names) > CONDITION else None
            if condition is not None and condition.uses:
                reader = condition.uses[0].node.op_type
                message = f"this Loop has no condition; its body reads '{condition.name}' in {reader}"
                fix = GIVEN.fix("gives the Loop the condition true", _give, loop)
                yield Fault(message, loop, condition, found="no condition", expected="a bool initializer", fixes=(fix,))


def _give(loop: NodeView, draft: Draft) -> None:
    name = f"{loop.label}_condition"
    draft.set_input(loop, CONDITION, draft.constant(loop.scope, name, np.array(True)))
