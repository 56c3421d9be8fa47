"""QM605: nodes that share a name."""

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer
from qdqtool.linting.rules.support.layer_names import taken_names
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.edits.edit import SetNodeName
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

RENAMED = Offer("safe", "gives the second node a unique name")


class DuplicateNames(Rule):
    """Nodes have different names where the target requires it.

    Why it matters: ONNX allows equal names, but ONNX Runtime refuses a graph in which two nodes other than Constants
    share a name. TensorRT refuses a Q or DQ with the name of an earlier layer of any graph. If a node has no name,
    TensorRT makes the name from its output. So a local function with Q or DQ is refused if it is called twice. Tools
    that insert Q/DQ by copying a node make such graphs.

    Bad: two nodes called conv_q.

    Good: unique names, or none.
    """

    code = "QM605"
    name = "model.duplicate-node-name"
    affects = impacts(ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "rename one of the two nodes; inline a local function that is called more than once"
    offers = (RENAMED,)
    VALID = examples("""
        Constants of one name:
            agraph (float[1,4] x) => (float[1,4] y) {
                [a] one = Constant <value = float {1}> ()
                [a] two = Constant <value = float {2}> ()
                sum = Add (x, one)
                y = Mul (sum, two)
            }
        empty names:
            $ONE_PAIR
    """)
    INVALID = examples("""
        two operators that are no Q or DQ, which TensorRT takes [ort-cpu]:
            agraph (float[1,4] x) => (float[1,4] y) {
                [a] r = Relu (x)
                [a] y = Neg (r)
            }
        a function with a pair, called twice [tensorrt, tensorrt-rtx]:
            <ir_version: 10, opset_import: ["": 21, "my": 1]>
            agraph (float[1,4] x) => (float[1,4] y) {
                r = my.Rounded (x)
                y = my.Rounded (r)
            }
            <domain: "my", opset_import: ["": 21]>
            Rounded (a) => (b) {
                s = Constant <value = float {0.1}> ()
                q = QuantizeLinear (a, s)
                b = DequantizeLinear (q, s)
            }
        a Q called as its scale [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                [s] q = QuantizeLinear (x, s, z)
                y = DequantizeLinear (q, s, z)
            }
        two nodes called a:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                [a] q = QuantizeLinear (x, s, z)
                [a] y = DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the node names by the rules of the target."""
        return _layers(context) if target.family == "tensorrt" else _nodes(context)


def _layers(context: RuleContext) -> Faults:
    for taken in taken_names(context):
        node, name = taken.node, taken.name
        why = (
            f"TensorRT imports this {node.op_type} at each call of its function, with the name '{name}' each time"
            if taken.again
            else f"the layer of this {node.op_type} gets the name '{name}', but {taken.owner} already has it"
        )
        expected = "a function that is called once, or inlined" if taken.again else "a unique name"
        yield Fault(why, node, found=name, expected=expected, fixes=() if taken.again else (_fix(node, name),))


def _nodes(context: RuleContext) -> Faults:
    for scope in context.view.scopes:
        first: dict[str, str] = {}
        for node in scope.nodes:
            name = node.proto.name
            # ONNX Runtime turns Constants into initializers before it compares names.
            if not name or node.is_op("Constant"):
                continue
            if name in first:
                message = f"a {first[name]} of this graph has the same name '{name}'"
                yield Fault(message, node, found=name, expected="a unique name", fixes=(_fix(node, name),))
            first.setdefault(name, node.op_type)


def _fix(node: NodeView, name: str) -> Fix:
    return RENAMED.fix(f"renames this {node.op_type}", _rename, node, name)


def _rename(node: NodeView, name: str, draft: Draft) -> None:
    draft.edits.append(SetNodeName(node.scope.path, node.key, draft.namer.node(name)))
