"""QS015: TensorRT's own Q/DQ operators that ONNX has too."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto

from qdqtool.linting.rules.fixes.stored import write_zero_point
from qdqtool.linting.rules.support.extents import FIRST_OPSET_WITH_BLOCKS, needs
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.reach import reachable
from qdqtool.linting.rules.support.rule import ADVICE, CAUTION, REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import kind, short
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import static_shape
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target
from qdqtool.numerics import formats

STANDARD = Offer("safe", "replaces the node by the one of ONNX, and raises the opset to one with its type")


class TensorrtDomain(Rule):
    """Q and DQ are operators of ONNX, not operators that only TensorRT's parser knows.

    Why it matters: Model Optimizer writes fp8 and int4 as ``trt.TRT_FP8QuantizeLinear`` or ``trt.DequantizeLinear``.
    They mean the same as the operators of ONNX, but no other tool reads them. ONNX Runtime refuses the model, so its
    numbers cannot be checked.

    Bad: trt.TRT_FP8QuantizeLinear (x, scale).

    Good: QuantizeLinear (x, scale, zero_point) with a zero point of type float8e4m3fn.
    """

    code = "QS015"
    name = "spec.tensorrt-domain"
    affects = impacts(onnx=CAUTION, ort_cpu=REFUSED, tensorrt=ADVICE)
    remedy = "use the operator of ONNX, at an opset that has the type"
    offers = (STANDARD,)
    VALID = examples("""
        fp8 in the standard domain:
            <ir_version: 10, opset_import: ["": 21]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = QuantizeLinear <output_dtype = 17> (x, s)
                y = DequantizeLinear (q, s)
            }
    """)
    INVALID = examples("""
        operators that are named after their type:
            <ir_version: 10, opset_import: ["": 21, "trt": 1]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}> {
                q = trt.TRT_FP8QuantizeLinear (x, s)
                y = trt.TRT_FP8DequantizeLinear (q, s)
            }
        the domain trt:
            <ir_version: 10, opset_import: ["": 21, "trt": 1]>
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = trt.QuantizeLinear (x, s, z)
                y = trt.DequantizeLinear (q, s, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the operator of every Q and DQ."""
        for entry in context.qdq.nodes:
            if entry.is_of_tensorrt:
                full = f"{entry.node.domain}.{entry.node.op_type}" if entry.node.domain else entry.node.op_type
                message = f"only TensorRT knows the operator {full}"
                fix = STANDARD.fix(f"writes {full} as a {short(entry)} of ONNX", _write, entry)
                yield Fault(message, entry.node, found=full, expected=entry.standard_name, fixes=(fix,))


def _write(entry: QdqNode, draft: Draft) -> None:
    fmt = formats.by_onnx_type(entry.quantized_type or 0)
    standard = get_target("onnx")
    legal = standard.quantize_types if entry.is_quantize else standard.dequantize_types
    if fmt is None or kind(entry.quantized_type) not in legal:
        raise UnfitError(f"ONNX has no {short(entry)} of {kind(entry.quantized_type)}")
    needed, scope = max(first for _, first in needs(draft.context, entry)), entry.node.scope
    draft.require_opset(scope, needed)
    draft.set_operator(entry.node, entry.standard_name)
    if entry.is_quantize:
        _declare_codes(entry, draft, fmt.onnx_type)
    if entry.scale_shape not in {(), (1,)}:
        draft.set_attribute(entry.node, "axis", entry.axis)
        _state_blocks(entry, draft)
    if entry.is_quantize and entry.zero_point is None and entry.output_dtype is None:
        _state_type(entry, draft, max(needed, scope.opset))


def _declare_codes(entry: QdqNode, draft: Draft, onnx_type: int) -> None:
    """Correct the declared type of codes, also after operators that only move them."""
    # Model Optimizer declares the codes of fp8 as uint8.
    for value in reachable([entry.output], _moved):
        declared = _declared_output_type(value)
        if declared not in {TensorProto.UNDEFINED, onnx_type}:
            raise UnfitError(f"its codes '{value.name}' are an output of type {kind(declared)}")
        draft.set_type(value, onnx_type)


def _moved(value: Value) -> Iterator[Value | None]:
    """Yield the outputs of operators that read a tensor and only move its codes."""
    readers = (use.node for use in value.uses if use.index == 0 or use.node.is_op("Concat"))
    return (node.output() for node in readers if ops.moves_codes(node) or node.is_op("Concat"))


def _declared_output_type(value: Value) -> int:
    """Return the declared type of a graph output; 0 for other tensors."""
    container = value.scope.container
    outputs = container.output if isinstance(container, onnx.GraphProto) else ()
    return next((info.type.tensor_type.elem_type for info in outputs if info.name == value.name), 0)


def _state_blocks(entry: QdqNode, draft: Draft) -> None:
    """If the node has no block size, write the size that the parser infers from the shapes."""
    shape, scale = draft.context.data_shape(entry), entry.scale_shape
    if entry.block_size or shape is None or scale is None or not 1 < len(scale) == len(shape):
        return
    extent, count = shape[entry.axis % len(shape)], scale[entry.axis % len(shape)]
    if not isinstance(extent, int) or not isinstance(count, int) or not count:
        raise UnfitError("the size of its blocks is unknown")
    draft.set_attribute(entry.node, "block_size", -(-extent // count))


def _state_type(entry: QdqNode, draft: Draft, opset: int) -> None:
    """Write the type, which the name of the operator gave, as output_dtype, or as a zero point at older opsets."""
    fmt = formats.by_onnx_type(entry.quantized_type or 0)
    assert fmt is not None
    if opset >= FIRST_OPSET_WITH_BLOCKS:
        draft.set_attribute(entry.node, "output_dtype", fmt.onnx_type)
        return
    shape = static_shape(entry.scale_shape)
    if shape is None:
        raise UnfitError("the shape of its scale is unknown")
    write_zero_point(draft, entry, np.zeros(shape, fmt.dtype))
