"""QM614: an opset that ONNX does not have."""

import onnx

from qdqtool.linting.rules.support.rule import SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target


class OpsetUnknown(Rule):
    """The opset of the default domain exists in ONNX.

    Why it matters: the opset defines what an operator means. TensorRT and onnx's checker read an unknown opset as the
    newest that they know, without a message. They misread an operator that changed later.

    Bad: a model whose opset was set to 99 by hand, or by an exporter newer than the installed onnx package.

    Good: the lowest opset with all operators and types of the model.
    """

    code = "QM614"
    name = "model.opset-unknown"
    affects = impacts(onnx=SILENT, tensorrt=SILENT)
    remedy = "export at a lower opset, or update the onnx package if the opset is newer than the package"
    VALID = examples("""
        opset 21:
            $ONE_PAIR
    """)
    INVALID = examples("""
        opset 99:
            <ir_version: 10, opset_import: ["": 99]>
            $ONE_PAIR
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the opset with the newest one that the installed onnx package defines."""
        opset, newest = context.model.default_opset(), onnx.defs.onnx_opset_version()
        if opset > newest:
            message = f"the model imports opset {opset}, which ONNX {onnx.__version__} does not have"
            yield Fault(message, found=str(opset), expected=f"at most {newest}")
