"""QP103: quantized types that the target does not compute with."""

from onnx import TensorProto

from qdqtool.linting.rules.fixes.symmetric import EXACT, SYMMETRIC, symmetric_fixes
from qdqtool.linting.rules.fixes.unquantize import FLOAT
from qdqtool.linting.rules.support.blocks import is_bias
from qdqtool.linting.rules.support.reach import reachable
from qdqtool.linting.rules.support.rule import REFUSED, SILENT, Fault, Faults, Impact, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, kind_of_data, legal_types, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Scope, Value
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target


class QuantizedType(Rule):
    """The target has kernels for the quantized type.

    Why it matters: each runtime has kernels for a few types. TensorRT refuses 16-bit codes, unsigned 4-bit codes and
    most fp8 variants. Its message names an initializer instead of the node. It accepts a uint8 Q but computes it as
    int8, so that every code above 127 is clipped. ONNX Runtime's CPU provider has no fp4 and no fp6.

    Bad: uint8 activations on a GPU.

    Good: int8 with zero point 0, or float8e4m3fn.
    """

    code = "QP103"
    name = "parameters.quantized-type"
    affects = impacts(onnx=REFUSED, ort_cpu=REFUSED, tensorrt=REFUSED)
    remedy = "quantize again to a type that the target computes with"
    offers = (EXACT, SYMMETRIC, FLOAT)
    VALID = examples("""
        int8:
            $ONE_PAIR
        float8e4m3fn, given by output_dtype:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 17> (x, s)
                y = DequantizeLinear (q, s)
            }
    """)
    INVALID = examples("""
        a uint8 pair, which TensorRT computes as int8 [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, uint8 z = {0}> {
                $PAIR_TO_Y
            }
        a uint8 Q whose codes a MaxPool and a Transpose move [tensorrt, tensorrt-rtx]:
            agraph (float[1,1,2,2] x) => (float[1,1,1,1] y) <float s = {0.1}, uint8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                p = MaxPool <kernel_shape = [2,2]> (q)
                t = Transpose <perm = [0,2,3,1]> (p)
                y = DequantizeLinear (t, s, z)
            }
        uint8 codes of a weight [tensorrt, tensorrt-rtx]:
            agraph (float[1,2] x) => (float[1,2] y) <uint8[2,2] w = {1,2,3,4}, float ws = {0.1}, uint8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (x, wd)
            }
        uint8 given by output_dtype [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 2> (x, s)
                y = DequantizeLinear (q, s)
            }
        int16 [tensorrt, tensorrt-rtx]:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int16 z = {0}> {
                $PAIR_TO_Y
            }
        fp4, which the CPU has no kernel for [ort-cpu]:
            <ir_version: 11, opset_import: ["": 23]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 23> (x, s)
                y = DequantizeLinear (q, s)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the quantized type of every Q and DQ with the target's table."""
        origin = CodeOrigin(context)
        for entry in context.qdq.nodes:
            quantized = kind(entry.quantized_type)
            legal = target.quantize_types if entry.is_quantize else target.dequantize_types
            if entry.quantized_type is None or quantized in legal or not _is_reported_here(entry):
                continue
            # The fault is reported at the Q. TensorRT computes uint8 codes as int8, also after operators that move
            # them.
            if not entry.is_quantize and origin.is_quantizers(entry.data):
                continue
            message = f"this {short(entry)} {'makes' if entry.is_quantize else 'reads'} {quantized}"
            codes = entry.output if entry.is_quantize else entry.data
            expected, impact = legal_types(legal, quantized, target), _impact(entry, target)
            fixes = symmetric_fixes(context, entry) if target.family == "tensorrt" else ()
            cause = f"{quantized} {kind_of_data(entry, context.qdq)}"
            yield Fault(
                message, entry.node, codes, found=quantized, expected=expected, impact=impact, fixes=fixes, cause=cause
            )


def _is_reported_here(entry: QdqNode) -> bool:
    """Return whether this rule has to report the type, because no other rule does."""
    if entry.is_quantize:
        if entry.zero_point is None:
            return bool(entry.output_dtype)
        return kind(entry.quantized_type) in get_target("onnx").quantize_types
    return not (entry.quantized_type == TensorProto.INT32 and is_bias(entry))


def _impact(entry: QdqNode, target: Target) -> Impact | None:
    """Return ``silent`` for a uint8 zero point that the target reads as int8; None for the rule's usual impact."""
    as_int8 = entry.is_quantize and entry.quantized_type == TensorProto.UINT8 and entry.zero_point is not None
    return SILENT if target.uint8_as_int8 and as_int8 else None


class CodeOrigin:
    """Finds the nodes that made codes, across operators that moved the codes."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._bodies: dict[NodeView, list[Scope]] = {}
        for scope in context.view.scopes:
            if scope.owner is not None:
                self._bodies.setdefault(scope.owner, []).append(scope)

    def is_quantizers(self, value: Value | None) -> bool:
        """Return whether all codes of a tensor come from Q nodes, and not from constants, inputs or Casts."""
        return value is not None and all(
            self._sources(each) or self._is_quantizers_own(each) for each in reachable([value], self._sources)
        )

    def _is_quantizers_own(self, value: Value) -> bool:
        maker = self._context.qdq.maker(value)
        return maker is not None and maker.is_quantize

    def _sources(self, value: Value) -> list[Value]:
        """Return the inputs of the node that makes ``value``, if they have its type; empty for a Q, DQ or Cast."""
        producer = value.producer
        if producer is None or self._context.qdq.maker(value) is not None:
            return []
        if producer.is_op("If"):
            index = list(producer.proto.output).index(value.name)
            made = [scope.resolve(scope.output_names()[index]) for scope in self._bodies.get(producer, [])]
            return [each for each in made if each is not None]
        if producer.is_op("Cast"):
            return []
        wanted = self._context.elem_type(value)
        return [each for each in producer.inputs if each is not None and self._context.elem_type(each) == wanted]
