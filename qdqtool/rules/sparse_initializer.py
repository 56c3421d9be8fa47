"""QM609: weights that are stored sparsely."""

from collections.abc import Iterator

import onnx

from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import REFUSED, Example, Fault, Rule, impacts
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
    INVALID = ()  # ONNX text has no sparse initializers; tests/rules/test_sparse_initializer.py makes one

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look for sparse initializers that a node reads."""
        del target
        stored = {
            sparse.values.name
            for scope in facts.view.scopes
            if isinstance(scope.container, onnx.GraphProto)
            for sparse in scope.container.sparse_initializer
        }
        if not stored:
            return
        for node in facts.nodes:
            for name in node.proto.input:
                if name in stored and node.scope.resolve(name) is None:
                    yield Fault(
                        message=f"input '{name}' is stored sparsely",
                        node=node,
                        tensor=name,
                        found="a sparse initializer",
                        expected="a dense one",
                    )
