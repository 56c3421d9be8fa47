"""QM616: constants that are stored in the body of a Loop."""

from collections.abc import Iterator

import onnx

from qdqtool.graph.view import Scope
from qdqtool.rules._facts import Facts
from qdqtool.rules._rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.targets import Target


class LoopInitializer(Rule):
    """The body of a Loop has no initializers of its own.

    Why it matters: TensorRT imports the initializers of the main graph, of If branches and of Scan bodies, but not
    those of a Loop body, nor of anything inside it. The parser stops at the first node that reads one with "Node input
    was not registered".

    Bad: scale and zero point as initializers of the body.

    Good: initializers of the main graph, which the body reads by name, or Constant nodes in the body.
    """

    code = "QM616"
    name = "model.loop-initializer"
    affects = impacts(tensorrt=REFUSED)
    remedy = "move the constant to the main graph under a name of its own, or make it a Constant node"
    VALID = (
        Example(
            "constants of the main graph",
            """
            agraph (float[1,4] x) => (float[1,4] y) <int64 n = {2}, float s = {0.1}, int8 z = {0}> {
                y = Loop (n, , x) <
                    body = b (int64 i, bool go, float[1,4] v) => (bool on, float[1,4] w) {
                        on = Identity (go)
                        q = QuantizeLinear (v, s, z)
                        w = DequantizeLinear (q, s, z)
                    }
                >
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "constants of the body",
            """
            agraph (float[1,4] x) => (float[1,4] y) <int64 n = {2}> {
                y = Loop (n, , x) <
                    body = b (int64 i, bool go, float[1,4] v) => (bool on, float[1,4] w)
                    <float s = {0.1}, int8 z = {0}> {
                        on = Identity (go)
                        q = QuantizeLinear (v, s, z)
                        w = DequantizeLinear (q, s, z)
                    }
                >
            }
            """,
        ),
    )

    def check(self, facts: Facts, target: Target) -> Iterator[Fault]:
        """Look at every scope that is, or lies in, the body of a Loop; a scope is reported once."""
        del target
        for scope in facts.view.scopes:
            stored = scope.container.initializer if isinstance(scope.container, onnx.GraphProto) else ()
            read = [tensor.name for tensor in stored if scope.values[tensor.name].uses]
            if read and _in_loop(scope):
                yield Fault(
                    message=f"this body has initializers, '{read[0]}' the first of {len(read)}",
                    node=scope.owner,
                    tensor=scope.values[read[0]],
                    found=f"{len(read)} initializers",
                    expected="none",
                )


def _in_loop(scope: Scope | None) -> bool:
    while scope is not None:
        if scope.owner is not None and scope.owner.is_op("Loop"):
            return True
        scope = scope.parent
    return False
