"""QT408: operators and attributes that are newer than the release of the target."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target


class LaterRelease(Rule):
    """The release of the target knows every operator and attribute.

    Why it matters: each release of the parser adds operators and attributes. An older parser only reports "Plugin not
    found" or "Mismatch between attribute output_dtype and zero-point data type". For a target with a release, such as
    ``tensorrt-10.8``, the rule reports the first release that loads the model. Other targets are not checked.

    Bad: Attention for TensorRT 10.13; a DequantizeLinear with output_dtype for TensorRT 10.9.

    Good: MatMul, Softmax, MatMul; a scale of the type that the DequantizeLinear should make.
    """

    code = "QT408"
    name = "target.later-release"
    affects = impacts(tensorrt=REFUSED)
    remedy = "replace the operator by older ones, remove the attribute, or use the later release"
    VALID = examples("""
        operators of every release [tensorrt, tensorrt-rtx, tensorrt-10.0]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                d = DequantizeLinear (q, s, z)
                y = Softmax (d)
            }
        RMSNormalization, for a release that has it [tensorrt, tensorrt-10.15]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x, float[4] scale) => (float[1,4] y) {
                y = RMSNormalization (x, scale)
            }
    """)
    INVALID = examples("""
        RMSNormalization, for a release that has it not [tensorrt-10.14]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x, float[4] scale) => (float[1,4] y) {
                y = RMSNormalization (x, scale)
            }
        output_dtype of a DQ [tensorrt-10.9]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear <output_dtype = 1> (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look up every operator and attribute in the lists of later releases."""
        if not target.later:
            return
        for node in context.nodes:
            if context.called(node) is not None or context.is_plugin(node):
                continue
            for name in _names(node):
                if name in target.later:
                    message = f"{target.title} does not know {name}"
                    yield Fault(message, node, found=name, expected=f"release {target.later[name]} or later")


def _names(node: NodeView) -> Iterator[str]:
    """Yield the operator, and its attributes as ``Operator.attribute``."""
    yield node.op_type
    for attribute in node.proto.attribute:
        yield f"{node.op_type}.{attribute.name}"
