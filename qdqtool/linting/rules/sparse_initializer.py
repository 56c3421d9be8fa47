"""QM609: weights in sparse initializers."""

import onnx

from qdqtool.linting.rules.support.layer_names import dead_scopes
from qdqtool.linting.rules.support.rule import REFUSED, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.targets import Target

FOUND, EXPECTED = "a sparse initializer", "a dense one"


class SparseInitializer(Rule):
    """Weights are stored densely.

    Why it matters: TensorRT does not import sparse initializers. It refuses the nodes that read them, with "input was
    not registered".

    Bad: sparse_initializer in the graph.

    Good: an ordinary initializer.
    """

    code = "QM609"
    name = "model.sparse-initializer"
    affects = impacts(tensorrt=REFUSED)
    remedy = "store the tensor densely"
    VALID = examples("""
        a dense weight:
            agraph (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 0, 0, 1}> {
                y = MatMul (x, w)
            }
    """)
    # ONNX text cannot express sparse initializers; tests/jobs/test_validate.py builds such a model.
    INVALID = ()

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for sparse initializers that a node or the caller reads, and for sparse Constants."""
        skipped = dead_scopes(context)
        for scope in context.view.scopes:
            if scope in skipped:
                continue
            if isinstance(scope.container, onnx.GraphProto):
                for sparse in scope.container.sparse_initializer:
                    yield from _readers(scope.values[sparse.values.name], skipped)
            yield from (_constant(node) for node in scope.nodes if _is_sparse(node))


def _readers(value: Value, skipped: frozenset[Scope]) -> Faults:
    # TensorRT reads a dense initializer with the same name instead.
    if value.initializer is not None:
        return
    # If the tensor is also a graph input, TensorRT expects its values from the caller.
    impact = SUSPECT if value.is_input else None
    message = f"'{value.name}' is stored sparsely"
    if value.is_output:
        yield Fault(message, tensor=value, found=FOUND, expected=EXPECTED, impact=impact)
    for use in value.uses:
        if use.node.scope not in skipped:
            yield Fault(f"input {message}", use.node, value, found=FOUND, expected=EXPECTED, impact=impact)


def _is_sparse(node: NodeView) -> bool:
    return node.is_op("Constant") and node.attribute("sparse_value") is not None


def _constant(node: NodeView) -> Fault:
    return Fault("this Constant is stored sparsely", node, node.output(), found=FOUND, expected=EXPECTED)
