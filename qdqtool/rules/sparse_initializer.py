"""QM609: weights that are stored sparsely."""

from collections.abc import Iterator

import onnx

from qdqtool.rules.support.rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext
from qdqtool.targets import Target


class SparseInitializer(Rule):
    """Weights are stored densely.

    Why it matters: TensorRT does not import sparse initializers; their readers are refused with "input was not
    registered".

    Bad: sparse_initializer in the graph.

    Good: an ordinary initializer.
    """

    code = "QM609"
    name = "model.sparse-initializer"
    affects = impacts(tensorrt=REFUSED)
    remedy = "store the tensor densely"
    VALID = (
        Example(
            "a dense weight",
            """
            agraph (float[1,2] x) => (float[1,2] y) <float[2,2] w = {1, 0, 0, 1}> {
                y = MatMul (x, w)
            }
            """,
        ),
    )
    # ONNX text cannot express sparse initializers; tests/jobs/test_validate.py builds such a model.
    INVALID = ()

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Look for sparse initializers that a node reads."""
        del target
        for scope in context.view.scopes:
            if not isinstance(scope.container, onnx.GraphProto):
                continue
            for sparse in scope.container.sparse_initializer:
                value = scope.values[sparse.values.name]
                for use in value.uses:
                    yield Fault(
                        message=f"input '{value.name}' is stored sparsely",
                        node=use.node,
                        tensor=value,
                        found="a sparse initializer",
                        expected="a dense one",
                    )
