"""QT416: operators of TensorRT's parser with inputs or attributes that it does not accept."""

from collections.abc import Callable, Iterator, Mapping

from onnx import TensorProto

from qdqtool.linting.rules.support import tensorrt_checks as checks
from qdqtool.linting.rules.support.rule import REFUSED, SILENT, Example, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import Wrong
from qdqtool.models.graph.index import tensorrt_operators as names
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target

HEADER = '<ir_version: 11, opset_import: ["": 23, "trt": 1]>'
FP4 = f"""
            {HEADER}
            agraph (float[%s] x) => (float[%s] y) <%s> {{
                q, b = trt.TRT_FP4DynamicQuantize <%s> (x, s)
                bd = DequantizeLinear (b, s)
                y = DequantizeLinear <axis = -1, block_size = 16> (q, bd)
            }}
            """
MX = f"""
            {HEADER}
            agraph (float[%s] x) => (float[%s] y) {{
                q, s = trt.TRT_MXFP8DynamicQuantize <axis = -1, block_size = 32> (x)
                y = trt.TRT_MXFP8DequantizeLinear <axis = -1, block_size = 32> (q, s)
            }}
            """
BLOCKS = f"""
            {HEADER}
            agraph (float[2,64] x) => (float[2,64] y) <float[2,2] s = {{0.1, 0.2, 0.3, 0.4}}> {{
                q = trt.TRT_BlockQuantize <block_shape = [%s], output_dtype = %d> (x, s)
                y = trt.TRT_BlockDequantize <block_shape = [1,32], output_dtype = 1> (q, s)
            }}
            """
DYNAMIC = f"""
            {HEADER}
            agraph (float[64,64] x) => (float[64,64] y) {{
                q, s = trt.TRT_DynamicQuantize <block_shape = [%s], output_type = %d, scale_type = %d> (x)
                y = trt.TRT_BlockDequantize <block_shape = [16,16], output_dtype = 1> (q, s)
            }}
            """
ONE_SCALE, NVFP4 = "float s = {0.1}", "axis = -1, block_size = 16, scale_type = 17"
TARGETS = ("tensorrt", "tensorrt-rtx")


class TensorrtOperator(Rule):
    """TensorRT's own quantization operators have inputs and attributes that its parser and builder accept.

    Why it matters: these operators quantize in blocks, only with fixed sizes and along the last axes. For other inputs,
    the only message is an assertion of the parser or an internal error of the builder. ONNX has no schemas for them.

    Bad: TRT_FP4DynamicQuantize with blocks of 32; TRT_FP4DynamicQuantize on an image of four dimensions; TRT_FP4QDQ, a
        placeholder that
    Model Optimizer replaces after the export.

    Good: TRT_FP4DynamicQuantize in blocks of 16 along the last axis, with one stored scale of scales.
    """

    code = "QT416"
    name = "target.tensorrt-operator"
    affects = impacts(tensorrt=REFUSED)
    remedy = (
        "correct the input or attribute in the message; the exporters of modelopt.onnx.export, such as "
        "NVFP4QuantExporter, complete an export with placeholders or float weights"
    )
    VALID = (
        Example("NVFP4", FP4 % ("2,64", "2,64", ONE_SCALE, NVFP4), TARGETS),
        Example("NVFP4 of an open batch", FP4 % ("N,64", "N,64", ONE_SCALE, NVFP4), TARGETS),
        Example("MXFP8", MX % ("2,3,64", "2,3,64"), TARGETS),
        Example("blocks of two dimensions", DYNAMIC % ("16,16", TensorProto.FLOAT8E4M3FN, 1), TARGETS),
        Example("stored scales of blocks", BLOCKS % ("1,32", TensorProto.INT8), TARGETS),
    )
    INVALID = (
        Example("blocks of 32 for fp4", FP4 % ("2,64", "2,64", ONE_SCALE, NVFP4.replace("= 16", "= 32")), TARGETS),
        Example("fp4 of four dimensions", FP4 % ("1,2,3,64", "1,2,3,64", ONE_SCALE, NVFP4), TARGETS),
        Example("fp4 along an axis that 16 does not divide", FP4 % ("2,24", "2,24", ONE_SCALE, NVFP4), TARGETS),
        Example("fp4 along an open axis", FP4 % ("2,N", "2,N", ONE_SCALE, NVFP4), TARGETS),
        Example("two scales of scales", FP4 % ("2,64", "2,64", "float[2] s = {0.1, 0.2}", NVFP4), TARGETS),
        Example("float scales of fp4", FP4 % ("2,64", "2,64", ONE_SCALE, NVFP4.replace("17", "1")), TARGETS),
        *examples(
            """
        a scale of scales that is an input [tensorrt, tensorrt-rtx]:
            $HEADER
            agraph (float[2,64] x, float s) => (float[2,64] y) {
                q, b = trt.TRT_FP4DynamicQuantize <axis = -1, block_size = 16> (x, s)
                bd = DequantizeLinear (b, s)
                y = DequantizeLinear <axis = -1, block_size = 16> (q, bd)
            }
            """,
            HEADER=HEADER,
        ),
        Example("MXFP8 along an axis that 32 does not divide", MX % ("2,48", "2,48"), TARGETS),
        Example("int4 in blocks of two dimensions", BLOCKS % ("1,32", TensorProto.INT4), TARGETS),
        Example("a block shape of another rank", BLOCKS % ("32", TensorProto.INT8), TARGETS),
        Example("dynamic int8", DYNAMIC % ("16,16", TensorProto.INT8, 1), TARGETS),
        Example("dynamic scales in fp8", DYNAMIC % ("16,16", TensorProto.FLOAT8E4M3FN, 17), TARGETS),
        *examples(
            """
        codes of one node and scales of another [tensorrt, tensorrt-rtx]:
            $HEADER
            agraph (float[2,64] x, float[2,64] u) => (float[2,64] y, float[2,64] z) {
                q, s = trt.TRT_MXFP8DynamicQuantize (x)
                p, t = trt.TRT_MXFP8DynamicQuantize (u)
                y = trt.TRT_MXFP8DequantizeLinear (q, t)
                z = trt.TRT_MXFP8DequantizeLinear (p, s)
            }
        scales that are read without the codes [tensorrt, tensorrt-rtx]:
            $HEADER
            agraph (float[2,64] x, float[2,64] u) => (float[2,64] y) {
                q, s = trt.TRT_MXFP8DynamicQuantize (x)
                p, t = trt.TRT_MXFP8DynamicQuantize (u)
                y = trt.TRT_MXFP8DequantizeLinear (q, t)
            }
        a placeholder [tensorrt, tensorrt-rtx]:
            $HEADER
            agraph (float[2,64] x) => (float[2,64] y) {
                y = trt.TRT_FP4QDQ <block_size = 16> (x)
            }
            """,
            HEADER=HEADER,
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Check every such node. It is recognized only by its operator name, as in the parser."""
        for node in context.nodes:
            yield from _misused(node)
            check = CHECKS.get(node.op_type)
            for wrong in check(context, node) if check is not None else ():
                message = f"{node.op_type} has {wrong.found}; TensorRT takes {wrong.expected}"
                yield Fault(message, node, found=wrong.found, expected=wrong.expected)


def _misused(node: NodeView) -> Faults:
    """Yield what is wrong with the neighbors of a node, or with its operator."""
    if node.op_type in names.PLACEHOLDERS:
        message = f"{node.op_type} is a placeholder, not an operator of TensorRT"
        yield Fault(
            message,
            node,
            found=node.op_type,
            expected="the nodes by which Model Optimizer replaces it after the export",
        )
    if node.op_type in {names.MX_DEQUANTIZE, names.BLOCK_DEQUANTIZE} and _mixes(node):
        message = f"this {node.op_type} reads the codes of one node and the scales of another"
        found = "scales of other data"
        yield Fault(message, node, found=found, expected="the scales that were made with the codes", impact=SILENT)
    if node.op_type in names.MAKES_SCALES and _hands_on_scales_alone(node):
        message = f"the scales of this {node.op_type} are read, but not its codes: the builder crashes"
        yield Fault(message, node, found="unread codes", expected="a DQ that reads codes and scales")


def _mixes(node: NodeView) -> bool:
    """Return whether codes are dequantized with other scales than the ones made together with them."""
    codes, scale = node.input(0), node.input(1)
    maker = codes.producer if codes is not None else None
    return maker is not None and maker.op_type in names.MAKES_SCALES and (scale is None or scale.producer is not maker)


def _hands_on_scales_alone(node: NodeView) -> bool:
    """Return whether only the scales are read, not the codes: TensorRT for RTX then crashes."""
    codes, scales = node.output(0), node.output(1)
    return scales is not None and _is_read(scales) and not (codes is not None and _is_read(codes))


def _is_read(value: Value) -> bool:
    return value.is_output or bool(value.uses)


CHECKS: Mapping[str, Callable[[RuleContext, NodeView], Iterator[Wrong]]] = {
    names.MX_DYNAMIC: checks.mx_dynamic,
    names.FP4_DYNAMIC: checks.fp4_dynamic,
    names.DYNAMIC: checks.dynamic,
    names.BLOCK_QUANTIZE: checks.block_quantize,
    names.BLOCK_DEQUANTIZE: checks.block_dequantize,
    names.MX_QUANTIZE: checks.mx_quantize,
    names.MX_DEQUANTIZE: checks.mx_dequantize,
}
