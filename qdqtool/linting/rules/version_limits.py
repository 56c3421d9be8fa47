"""QM607: opsets and IR versions that are too new for the target."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.targets import Target


class VersionLimits(Rule):
    """The target supports the opset and the IR version of the model.

    Why it matters: the onnx package writes the newest version that it knows, and ONNX Runtime refuses versions that are
    newer than its own release. The message has two numbers and no fix.

    Bad: IR version 14 for ONNX Runtime 1.31.

    Good: the lowest opset for the types of the model: 13 for int8, 19 for fp8, 21 for int4 and blocks, 23 for fp4.
    """

    code = "QM607"
    name = "model.version-limit"
    affects = impacts(ort_cpu=REFUSED)
    remedy = "save with a lower opset and IR version, or use a newer release of the target"
    VALID = examples("""
        opset 21, IR version 10:
            $ONE_PAIR
    """)
    INVALID = examples("""
        IR version 14:
            <ir_version: 14, opset_import: ["": 21]>
            $ONE_PAIR
        opset 28:
            <ir_version: 13, opset_import: ["": 28]>
            $ONE_PAIR
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the opset and the IR version with the limits of the target."""
        opset, ir_version = context.model.default_opset(), context.model.proto.ir_version
        assert target.max_opset is not None
        assert target.max_ir is not None
        if opset > target.max_opset:
            yield Fault(f"the model uses opset {opset}", found=str(opset), expected=f"at most {target.max_opset}")
        if ir_version > target.max_ir:
            message = f"the file has IR version {ir_version}"
            yield Fault(message, found=str(ir_version), expected=f"at most {target.max_ir}")
