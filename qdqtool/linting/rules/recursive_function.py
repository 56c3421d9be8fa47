"""QM612: local functions that call themselves."""

from qdqtool.linting.rules.support.reach import reachable
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target

FunctionId = tuple[str, str, str]


class RecursiveFunction(Rule):
    """No local function calls itself, directly or through other functions.

    Why it matters: ONNX forbids it. onnx and ONNX Runtime report it; TensorRT's parser recurses until it crashes.

    Bad: a function f whose body calls f.

    Good: a Loop instead of the recursion.
    """

    code = "QM612"
    name = "model.recursive-function"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "export the function again; recursion is written as a Loop"
    VALID = examples("""
        a function that calls another:
            <ir_version: 10, opset_import: ["": 21, "local": 1]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = local.twice (x)
            }
            <domain: "local", opset_import: ["": 21, "local": 1]>
            twice (a) => (b) {
                b = local.once (a)
            }
            <domain: "local", opset_import: ["": 21]>
            once (a) => (b) {
                b = Relu (a)
            }
    """)
    INVALID = examples("""
        a function that calls itself:
            <ir_version: 10, opset_import: ["": 21, "local": 1]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = local.again (x)
            }
            <domain: "local", opset_import: ["": 21, "local": 1]>
            again (a) => (b) {
                b = local.again (a)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Follow the calls of each function; report a function that reaches itself."""
        calls: dict[FunctionId, set[FunctionId]] = {identity: set() for identity in context.functions}
        roots = {scope.path[0]: identity for identity, scope in context.functions.items()}
        for node in context.nodes:
            called = (node.proto.domain, node.op_type, node.proto.overload)
            caller = roots.get(node.scope.path[0]) if node.scope.in_function else None
            if caller is not None and called in calls:
                calls[caller].add(called)
        for identity, called_by_it in calls.items():
            if identity in reachable(called_by_it, calls.__getitem__):
                domain, name, _ = identity
                message = f"local function '{domain}::{name}' calls itself"
                yield Fault(message, found=f"{domain}::{name}", expected="no recursion")
