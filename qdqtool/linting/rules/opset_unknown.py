"""QM614: an opset that ONNX does not have."""

import onnx

from qdqtool.linting.rules.support.rule import SILENT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target


class OpsetUnknown(Rule):
    """The opset of the default domain is one that ONNX has.

    Why it matters: an operator means what its opset says. onnx's checker and TensorRT read an opset that they do not
    know as the newest one they know, without a word: what changed since is read wrong.

    Bad: a model stamped opset 99 by hand, or by an exporter newer than the onnx package that reads it.

    Good: the lowest opset that has what the model uses.
    """

    code = "QM614"
    name = "model.opset-unknown"
    affects = impacts(onnx=SILENT, tensorrt=SILENT)
    remedy = "export at a lower opset, or update the onnx package if the opset is newer than it"
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
        """Compare with the newest opset that the installed onnx package defines."""
        opset, newest = context.model.default_opset(), onnx.defs.onnx_opset_version()
        if opset > newest:
            message = f"the model imports opset {opset}, which ONNX {onnx.__version__} does not have"
            yield Fault(message, found=str(opset), expected=f"at most {newest}")
