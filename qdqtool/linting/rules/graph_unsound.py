"""QM615: a model whose graph is not sound."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.soundness import unsound
from qdqtool.models.targets import Target


class GraphUnsound(Rule):
    """Every name is defined once, every output is made, and no tensor depends on itself.

    Why it matters: tools that edit or run such a file disagree about what it means, or fail far from the fault.

    Bad: two nodes that write the same tensor after a rename.

    Good: names that are unique in the graph and in all graphs around it.
    """

    code = "QM615"
    name = "model.not-a-graph"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "export the model again, or correct the name of the tensor"
    VALID = examples("""
        a chain:
            $ONE_PAIR
    """)
    INVALID = examples("""
        a tensor that two nodes make:
            agraph (float[1,4] x) => (float[1,4] y) {
                a = Relu (x)
                a = Abs (x)
                y = Neg (a)
            }
        an output that nothing makes:
            agraph (float[1,4] x) => (float[1,4] y) {
                a = Relu (x)
            }
        a tensor that depends on itself:
            agraph (float[1,4] x) => (float[1,4] y) {
                a = Add (x, b)
                b = Relu (a)
                y = Neg (b)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look through every scope."""
        for scope in context.view.scopes:
            for found in unsound(scope):
                yield Fault(f"tensor '{found.tensor}' {found.problem}", found.node, found.tensor)
