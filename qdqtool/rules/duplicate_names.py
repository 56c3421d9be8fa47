"""QM605: nodes that share a name."""

from collections.abc import Iterator
from functools import partial

from qdqtool.graph.edits.edit import SetNodeName
from qdqtool.graph.index.view import NodeView
from qdqtool.rules.support.fix import Draft, Fix, Offer
from qdqtool.rules.support.rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext
from qdqtool.targets import Target

RENAMED = Offer("safe", "gives the second node a name of its own")


class DuplicateNames(Rule):
    """Node names are unique or empty.

    Why it matters: ONNX does not ask for it, but ONNX Runtime and TensorRT refuse a graph in which two nodes share a
    name. Tools that insert Q/DQ by copying a node make such graphs.

    Bad: two nodes called conv_q.

    Good: unique names, or none.
    """

    code = "QM605"
    name = "model.duplicate-node-name"
    affects = impacts(ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "rename one of them, or clear both names"
    offers = (RENAMED,)
    VALID = (
        Example(
            "empty names",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "two nodes called a",
            """
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                [a] q = QuantizeLinear (x, s, z)
                [a] y = DequantizeLinear (q, s, z)
            }
            """,
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Compare the names within each graph."""
        del target
        for scope in context.view.scopes:
            first: dict[str, str] = {}
            for node in scope.nodes:
                name = node.proto.name
                if not name:
                    continue
                if name in first:
                    yield Fault(
                        message=f"a {first[name]} of this graph has the same name '{name}'",
                        node=node,
                        found=name,
                        expected="a name of its own",
                        fixes=(Fix(RENAMED, f"renames this {node.op_type}", partial(_rename, node)),),
                    )
                first.setdefault(name, node.op_type)


def _rename(node: NodeView, draft: Draft) -> None:
    draft.edits.append(SetNodeName(node.scope.path, node.key, draft.namer.node(node.proto.name)))
