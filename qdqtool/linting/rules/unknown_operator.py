"""QT411: operators that ONNX does not have."""

import functools

import onnx

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import is_operator
from qdqtool.models.targets import Target

OWN_OF_ORT = frozenset({"LayerNormalization", "SimplifiedLayerNormalization", "MemcpyFromHost", "MemcpyToHost"})
"""Operators that ONNX Runtime 1.31 has in the default domain at every opset."""


class UnknownOperator(Rule):
    """ONNX has every operator of the default domain, at the opset of the model.

    Why it matters: some exporters and old quantizers write operators of ONNX Runtime (QLinearAdd, MatMulBnb4) without
    their domain. Others write operators of a later opset. Runtimes that follow ONNX do not load such a model. TensorRT
    ignores domains and opsets, and an unknown name may be a plugin: QT403 reports the operators that TensorRT refuses.

    Bad: QLinearAdd in the default domain; Gelu at opset 19.

    Good: Q/DQ around Add; com.microsoft.QLinearAdd for ONNX Runtime; Gelu at opset 20.
    """

    code = "QT411"
    name = "target.unknown-operator"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED)
    remedy = "add the domain of the operator, or raise the opset; export quantized operators as Q/DQ"
    VALID = examples("""
        Gelu at opset 20:
            <ir_version: 10, opset_import: ["": 20]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = Gelu (x)
            }
    """)
    INVALID = examples("""
        a local function of the default domain, where nobody looks for functions:
            <ir_version: 10, opset_import: ["": 21]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = Twice (x)
            }
            <domain: "", opset_import: ["": 21]>
            Twice (a) => (b) {
                b = Add (a, a)
            }
        an operator of ONNX Runtime without its domain:
            agraph (int8[1,2] x) => (int8[1,2] y) <float s = {0.1}, int8 z = {0}> {
                y = QLinearAdd (x, s, z, x, s, z, s, z)
            }
        Gelu at opset 19:
            <ir_version: 9, opset_import: ["": 19]>
            agraph (float[1,4] x) => (float[1,4] y) {
                y = Gelu (x)
            }
        an operator that ONNX has withdrawn:
            <ir_version: 7, opset_import: ["": 13]>
            agraph (float[2,2] x, int64[1,2] i, float[1,2] u) => (float[2,2] y) {
                y = Scatter (x, i, u)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look up every operator of the default domain in the operator set of its graph."""
        for node in context.nodes:
            opset, own = node.scope.opset, target.family == "ort-cpu" and _is_own(node.op_type)
            if node.domain or own:
                continue
            problem = _problem(node.op_type, opset)
            if problem is not None:
                message = f"operator {node.op_type} {problem}"
                found = f"{node.op_type} at opset {opset}"
                yield Fault(message, node, found=found, expected="an operator of ONNX at that opset")


def _is_own(op_type: str) -> bool:
    # Rule QT403 (operators of other formats) reports the operators of TensorRT.
    return op_type in OWN_OF_ORT or op_type.startswith("TRT_")


@functools.lru_cache(maxsize=1024)
def _problem(op_type: str, opset: int) -> str | None:
    """Return what is wrong with an operator of the default domain, in words; None if ONNX has it."""
    newest = onnx.defs.onnx_opset_version()
    if not is_operator(op_type):
        return "is not one of ONNX"
    # Rule QM614 reports opsets that ONNX does not have.
    if not 0 < opset <= newest:
        return None
    if not onnx.defs.has(op_type, domain="", max_inclusive_version=opset):
        return f"does not exist in opset {opset} yet"
    if onnx.defs.get_schema(op_type, opset, "").deprecated:
        return f"is withdrawn from opset {opset}"
    return None
