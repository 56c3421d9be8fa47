"""QS009: inputs that nothing defines."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target


class UndefinedTensor(Rule):
    """Every input of a node is the output of a node, a stored tensor, or an input of the graph.

    Why it matters: a name becomes undefined if an editor removes a node but not all nodes that read it.

    Bad: DequantizeLinear (q, scale) where no node makes q.

    Good: every name is defined in its graph or in one around it.
    """

    code = "QS009"
    name = "spec.undefined-tensor"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "connect the input to a tensor that exists"
    VALID = examples("""
        everything is defined:
            $ONE_PAIR
    """)
    INVALID = examples("""
        a scale that is nowhere:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, t, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Resolve the name of every input of every node."""
        for scope in context.view.scopes:
            for node in scope.nodes:
                for name in filter(None, node.proto.input):
                    if scope.resolve(name) is None:
                        message = f"input '{name}' of this {node.op_type} is not defined"
                        yield Fault(message, node, name, found=name, expected="the name of a tensor")
