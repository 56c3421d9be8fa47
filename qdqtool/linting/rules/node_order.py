"""QM617: nodes listed before the nodes whose outputs they read."""

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.soundness import Unsound, out_of_order
from qdqtool.models.targets import Target

SORTED = Offer("safe", "moves nodes in front of the readers of their outputs; all other nodes keep their order")


class NodeOrder(Rule):
    """Every node comes after the nodes whose outputs it reads.

    Why it matters: ONNX demands this order, and its checker refuses any other. ONNX Runtime and TensorRT sort the nodes
    themselves, so such a file works there. But many other tools read the nodes in order and fail.

    Bad: a DQ listed before its Q, because an editor appended the Q at the end.

    Good: nodes in topological order.
    """

    code = "QM617"
    name = "model.node-order"
    affects = impacts(onnx=REFUSED)
    remedy = "sort the nodes"
    offers = (SORTED,)
    VALID = examples("""
        the Q comes first:
            $ONE_PAIR
    """)
    INVALID = examples("""
        the DQ comes first:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                y = DequantizeLinear (q, s, z)
                q = QuantizeLinear (x, s, z)
            }
        a body reads what comes later:
            agraph (bool c, float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                y = If (c) <
                    then_branch = t () => (float[1,4] a) { a = DequantizeLinear (q, s, z) },
                    else_branch = e () => (float[1,4] b) { b = Neg (x) }
                >
                q = QuantizeLinear (x, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the position of each producer with the positions of its readers."""
        for scope in context.view.scopes:
            for found in out_of_order(scope):
                message = f"tensor '{found.tensor}' {found.problem}"
                given, expected = (
                    "a reader in front of the node that makes the tensor",
                    "nodes in front of the readers of their outputs",
                )
                fix = SORTED.fix("moves the node that makes it in front of the reader", _sort, found)
                yield Fault(message, found.node, found.tensor, found=given, expected=expected, fixes=(fix,))


def _sort(found: Unsound, draft: Draft) -> None:
    """Set the input to the tensor that it already reads: writing an edit moves the reader after its producer."""
    assert found.use is not None
    draft.set_input(found.use.node, found.use.index, found.tensor)
