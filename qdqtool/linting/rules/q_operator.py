"""QT403: operators of quantized formats other than Q/DQ."""

from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models.graph.index.signature import is_quantizer
from qdqtool.models.graph.index.tensorrt_operators import LINEAR
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

STANDARD = frozenset({"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})
MICROSOFT = frozenset(
    {
        "DynamicQuantizeLSTM",
        "DynamicQuantizeMatMul",
        "GatherBlockQuantized",
        "MatMulBnb4",
        "MatMulInteger16",
        "MatMulIntegerToFloat",
        "MatMulNBits",
        "QAttention",
        "QEmbedLayerNormalization",
        "QGemm",
        "QMoE",
        "QOrderedMatMul",
    }
)


class QOperator(Rule):
    """Quantization is expressed by Q/DQ around ordinary operators.

    Why it matters: QLinearConv and similar operators are the compiled form of ONNX Runtime. TensorRT refuses them with
    the message "false", and needs a plugin for MatMulNBits and QMoE. ONNX Runtime does not know NVIDIA's TRT_
    operators. Both refuse QONNX, which Brevitas exports.

    Bad: QLinearConv, MatMulInteger, DynamicQuantizeLinear; com.microsoft QGemm, MatMulNBits; Quant of QONNX.

    Good: DequantizeLinear, Conv, QuantizeLinear.
    """

    code = "QT403"
    name = "target.q-operator"
    affects = impacts(ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = (
        "`qdqtool normalize MODEL -o OUT` rewrites most of them as Q/DQ; or export in Q/DQ form (in ONNX Runtime:"
        " quantize_static with quant_format=QuantFormat.QDQ)"
    )
    cause = "operators of another quantized form"
    VALID = examples("""
        Q/DQ around a MatMul:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
    """)
    INVALID = examples("""
        MatMulInteger [tensorrt, tensorrt-rtx]:
            agraph (int8[1,2] x) => (int32[1,2] y) <int8[2,2] w = {1,2,3,4}> {
                y = MatMulInteger (x, w)
            }
        QLinearMatMul [tensorrt, tensorrt-rtx]:
            agraph (int8[1,2] x) => (int8[1,2] y) <int8[2,2] w = {1,2,3,4}, float s = {0.1}, int8 z = {0}> {
                y = QLinearMatMul (x, s, z, w, s, z, s, z)
            }
        an operator of ONNX Runtime in the default domain [tensorrt, tensorrt-rtx]:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float s = {0.1}> {
                y = MatMulIntegerToFloat (x, w, s, s)
            }
        DynamicQuantizeLinear [tensorrt, tensorrt-rtx]:
            agraph (float[1,2] x) => (uint8[1,2] y) {
                y, s, z = DynamicQuantizeLinear (x)
            }
        QONNX:
            <ir_version: 10, opset_import: ["": 21, "qonnx.custom_op.general": 1]>
            agraph (float[1,2] x) => (float[1,2] y) <float s = {0.1}, float z = {0}, float b = {8}> {
                y = qonnx.custom_op.general.Quant <signed = 1, narrow = 0, rounding_mode = "ROUND"> (x, s, z, b)
            }
        an operator of TensorRT [ort-cpu]:
            <ir_version: 10, opset_import: ["": 21, "trt": 1]>
            agraph (float[2,32] x) => (float[2,32] y) {
                q, s = trt.TRT_MXFP8DynamicQuantize (x)
                y = trt.TRT_MXFP8DequantizeLinear (q, s)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Find these operators by name, unless a local function defines them."""
        foreign = is_compiled if target.family == "tensorrt" else _is_tensorrt
        for node in context.nodes:
            if target.family == "tensorrt" and context.is_plugin(node):
                continue
            if (foreign(node) or is_quantizer(node.proto)) and context.called(node) is None:
                full = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
                expected = "QuantizeLinear and DequantizeLinear around ordinary operators"
                yield Fault(f"operator {full} is unknown to {target.title}", node, found=full, expected=expected)


def is_compiled(node: NodeView) -> bool:
    """Return whether a node is an operator of ONNX Runtime, or of ONNX, on codes."""
    # The parser compares only names, so it also refuses com.microsoft operators in the default domain.
    if node.domain not in {"", "com.microsoft"}:
        return False
    standard = not node.domain and node.op_type in STANDARD
    return standard or node.op_type in MICROSOFT or node.op_type.startswith("QLinear")


def _is_tensorrt(node: NodeView) -> bool:
    # Rule QS015 reports the TRT_ operators that are Q and DQ under another name.
    return node.op_type.startswith("TRT_") and node.op_type not in LINEAR
