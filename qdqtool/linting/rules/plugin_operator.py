"""QT419: operators that are declared as plugins, and operators that are not."""

from qdqtool.linting.rules.support.rule import CAUTION, REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import is_operator
from qdqtool.models import ops
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target
from qdqtool.registry import suggestion

_HEADER = """<ir_version: 10, opset_import: ["": 21, "acme": 1], metadata_props: ["qdqtool.plugin_operators": "%s"]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = %s (x)
            }"""
_STAND_IN = """
            <domain: "acme", opset_import: ["": 21]>
            Swirl (a) => (b) {
                b = Relu (a)
            }"""


class PluginOperatorRule(Rule):
    """A model uses the plugin operators that are declared for it, and no other unknown operator.

    Why it matters: TensorRT looks up an operator that it does not have among its plugins, by name. Without the plugin
    it refuses the model. ``--plugin-ops`` declares the operators that the user's TensorRT has as plugins: rules do not
    call them unknown. Every other operator that ONNX does not have is a warning, and an error as soon as one is
    declared, because a misspelled name looks like one more plugin. Plugins that come with TensorRT end with ``_TRT``.
    The numbers of a plugin are not checked. If the types and shapes of its outputs are unknown, little is checked
    behind it, and the parser stops there.

    Bad: acme::Swrl in a model for which acme::Swirl is declared; a plugin whose outputs have no known type.

    Good: acme::Swirl=same-as-input-0; or a local function of the same name, which has the types and shapes.
    """

    code = "QT419"
    name = "target.plugin-operator"
    affects = impacts(tensorrt=REFUSED)
    remedy = (
        "name the operator with --plugin-ops DOMAIN::NAME as the model spells it; =same-as-input-N, or a local "
        "function of the same name, gives the types of its outputs"
    )
    VALID = examples(
        """
        a plugin with a local function in its place:
            $WITH_FUNCTION
    """,
        WITH_FUNCTION=_HEADER % ("acme::Swirl", "acme.Swirl") + _STAND_IN,
    )
    INVALID = examples(
        """
        another name than the declared one:
            $OTHER
        a declared operator that no node is [tensorrt, tensorrt-rtx]:
            $UNUSED
    """,
        OTHER=_HEADER % ("acme::Swirl=same-as-input-0", "acme.Swrl"),
        UNUSED=_HEADER % ("acme::Swirl", "Relu"),
    )

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the nodes with the declared operators, if there are any."""
        present = {(node.domain, node.op_type): f"{node.domain}::{node.op_type}" for node in context.nodes}
        for key, each in context.plugins.items():
            if key not in present:
                message = f"{each.title} is declared as a plugin, but no node has this operator"
                similar = suggestion(each.title, present.values())
                yield Fault(f"{message}{similar}", found="no node", expected=each.title, impact=CAUTION)
        declared = ", ".join(each.title for each in context.plugins.values())
        for node in context.nodes:
            title = present[node.domain, node.op_type]
            if context.is_plugin(node) and not node.domain and ops.product(node) is not None:
                message = f"{title} is declared as a plugin, and TensorRT always runs its own {node.op_type}"
                yield Fault(message, node, found=title, expected="no declaration")
            elif context.is_plugin(node):
                outputs = node.present_outputs
                if any(context.elem_type(each) is None or context.shape(each) is None for each in outputs):
                    message = f"the plugin {title} has outputs of unknown type or shape: little is checked behind it"
                    yield Fault(message, node, found="unknown", expected="a rule or a local function", impact=CAUTION)
            elif _is_unknown(context, node) and context.plugins:
                message = f"operator {title} is neither an operator of ONNX nor declared as a plugin"
                yield Fault(message, node, found=title, expected=declared)
            elif _is_unknown(context, node) and node.domain and not node.op_type.endswith("_TRT"):
                message = f"operator {title} is not one of ONNX: TensorRT needs a plugin with its name"
                yield Fault(message, node, found="no declaration", expected=f"--plugin-ops {title}", impact=CAUTION)


def _is_unknown(context: RuleContext, node: NodeView) -> bool:
    """Return whether TensorRT can have an operator only as a plugin."""
    # The parser ignores domains. Other rules judge the operators of ONNX Runtime (QT403) and of TensorRT (QT416).
    if node.domain == "com.microsoft" or node.op_type.startswith("TRT_") or is_operator(node.op_type):
        return False
    return context.called(node) is None
