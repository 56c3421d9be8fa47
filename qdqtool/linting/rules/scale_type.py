"""QS005: scale types that the target does not accept."""

from onnx import TensorProto

from qdqtool.linting.rules.fixes.scales import RETYPED, scale_type_fixes
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import FLOAT_NAMES, kind, listed, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.targets import Target

FIRST_OPSET_WITH_SHARED_TYPES = 19
FIRST_OPSET_WITH_FREE_TYPES = 23


class ScaleType(Rule):
    """The target accepts the type of the scale, and it equals the data type where the target demands it.

    Why it matters: below opset 23, the scale of a Q must have the type of the data. From 23 on, the types may differ,
    but ONNX Runtime loads such a model and fails at the first run. ONNX Runtime has no bfloat16 kernel for Q and
    DQ. TensorRT accepts any mix of float types, but not float8e8m0 in the standard operators.

    Bad: a float32 scale for float16 data at opset 21; a bfloat16 scale for a model that is to run on the CPU.

    Good: the scale in the type of the data.
    """

    code = "QS005"
    name = "spec.scale-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "store the scale in the type of the float tensor"
    offers = (RETYPED,)
    VALID = examples("""
        float16 data, float16 scale (bits 11878 are 0.1):
            agraph (float16[1,4] x) => (float16[1,4] y) <float16 s = {11878}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)
    INVALID = examples("""
        float16 data, float32 scale [onnx, ort-cpu]:
            agraph (float16[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        bfloat16, which has no CPU kernel (bits 15821 are 0.1) [ort-cpu]:
            agraph (bfloat16[1,4] x) => (bfloat16[1,4] y) <bfloat16 s = {15821}, int8 z = {0}> {
                $PAIR_TO_Y
            }
        float8e8m0 [ort-cpu, tensorrt, tensorrt-rtx]:
            <ir_version: 12, opset_import: ["": 24]>
            agraph (float[1,4] x) => (float[1,4] y) <float8e8m0 s = {127}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = DequantizeLinear <output_dtype = 1> (q, s, z)
            }
        an integer scale:
            agraph (float[1,4] x) => (float[1,4] y) <int32 s = {1}, int8 z = {0}> {
                $PAIR_TO_Y
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the type of each scale with the target's table and with the float data."""
        for entry in context.qdq.nodes:
            given = context.elem_type(entry.scale)
            if given is None:
                continue
            expected = _expected(context, entry, target, kind(given))
            if expected is not None:
                message = f"scale '{entry.node.input_name(1)}' of this {short(entry)} has type {kind(given)}"
                fixes = scale_type_fixes(entry, expected)
                yield Fault(message, entry.node, entry.scale, found=kind(given), expected=expected, fixes=fixes)


def _expected(context: RuleContext, entry: QdqNode, target: Target, given: str) -> str | None:
    data, opset = kind(context.elem_type(entry.data)), entry.node.scope.opset
    # From opset 23 on, ONNX allows different types. ONNX Runtime accepts such models, but fails when it runs a mix of
    # float32 and float16.
    free = target.id == "onnx" and opset >= FIRST_OPSET_WITH_FREE_TYPES
    shared = target.id == "onnx" and data == "int32" and opset >= FIRST_OPSET_WITH_SHARED_TYPES
    # ONNX Runtime and TensorRT do not accept int32 scales.
    if given not in target.scale_types and not (given == "int32" and entry.is_quantize and (free or shared)):
        return listed(target.scale_types)
    if target.family == "tensorrt":
        return None
    if entry.is_quantize:
        bound = data in FLOAT_NAMES or (data == "int32" and opset >= FIRST_OPSET_WITH_SHARED_TYPES)
        return data if bound and data != given and not free else None
    # ONNX Runtime has no CPU kernel for Q or DQ of bfloat16.
    bfloat16 = target.id == "ort-cpu" and context.output_type(entry) == TensorProto.BFLOAT16
    return "an output type other than bfloat16" if bfloat16 else None
