"""QA202: activations with more than one scale."""

import numpy as np

from qdqtool.linting.rules.fixes.code_group import CodeGroup
from qdqtool.linting.rules.fixes.stored import write_parameters
from qdqtool.linting.rules.support.blocks import keeps_sum
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Impact, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, as_reals
from qdqtool.linting.rules.support.words import dims, format_of, short
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import Value
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

ONE_SCALE = Offer("unsafe", "gives the whole tensor the largest of the scales")


class ActivationAxis(Rule):
    """An activation has one scale.

    Why it matters: NVIDIA documents per-tensor scales for activations. The parser accepts more scales. But a Conv then
    runs in float, like a MatMul or Gemm with scales along the axis of its sum. The pair then only rounds. A MatMul with
    one scale for each row still runs in int8 in TensorRT for RTX. This is a warning, because NVIDIA does not document
    it.

    Bad: a pair in front of a Conv, with a scale for each channel.

    Good: one scale for the activation, per-axis scales for the weight.
    """

    code = "QA202"
    name = "axis.activation"
    affects = impacts(tensorrt=Impact("error", "fallback"))
    remedy = "calibrate the activation per tensor; keep per-axis scales for weights"
    offers = (ONE_SCALE,)
    VALID = examples("""
        one scale for the activation:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                y = Conv (xd, wd)
            }
    """)
    INVALID = examples("""
        a scale for each row of a MatMul, which stays int8 and is documented nowhere:
            agraph (float[2,2] x) => (float[2,2] y)
            <float[2] s = {0.1, 0.3}, int8[2] z = {0,0}, int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                q = QuantizeLinear <axis = 0> (x, s, z)
                xd = DequantizeLinear <axis = 0> (q, s, z)
                wd = DequantizeLinear (w, ws, wz)
                y = MatMul (xd, wd)
            }
        a scale for each input channel of a Conv:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float[2] s = {0.1, 0.3}, int8[2] z = {0,0}, int8[2,2,1,1] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                q = QuantizeLinear <axis = 1> (x, s, z)
                xd = DequantizeLinear <axis = 1> (q, s, z)
                wd = DequantizeLinear (w, ws, wz)
                [c] y = Conv (xd, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at every Q of data, and every DQ whose data does not come from a Q."""
        for entry in context.qdq.nodes:
            if entry.granularity is None or entry.data is None or isinstance(entry.granularity, PerTensor):
                continue
            if context.qdq.quantizer_of(entry) is not None or entry.is_dynamic or _is_weight(context, entry.data):
                continue
            assert entry.scale_shape is not None
            message = f"this {short(entry)} of an activation has several scales: {entry.granularity}"
            found = f"scale of shape {dims(entry.scale_shape)}"
            impact = None if _makes_float(context, entry) else CAUTION
            fix = ONE_SCALE.fix("gives the tensor the largest of its scales", _join, entry)
            yield Fault(message, entry.node, entry.data, found=found, expected="one scale", impact=impact, fixes=(fix,))


def _is_weight(context: RuleContext, data: Value) -> bool:
    """Return whether data is a constant, or the codes of a constant after a Clip to a narrow range."""
    # Measured with TensorRT for RTX: float weight, Q, Clip, DQ is built with all products in int8.
    clip = data.producer
    quantizer = context.qdq.maker(clip.input(0)) if clip is not None and clip.is_op("Clip") else None
    if quantizer is not None and quantizer.is_quantize and quantizer.data is not None:
        data = quantizer.data
    return context.is_constant(data)


def _makes_float(context: RuleContext, entry: QdqNode) -> bool:
    """Return whether an operator with int8 kernels runs in float because of the scales."""
    dequantizers = context.qdq.readers(entry) if entry.is_quantize else [entry]
    readers = (reader for each in dequantizers for reader in context.readers_of_codes.get(each, ()))
    return any(not keeps_sum(context, product, index) for product, index in readers)


def _join(entry: QdqNode, draft: Draft) -> None:
    group = CodeGroup.of(draft.context, entry)
    given, fmt = group.shared(), format_of(entry.quantized_type)
    if group.constants or fmt is None:
        raise UnfitError("stored codes have the same scales")
    if given.zero_point is not None and np.any(as_reals(given.zero_point)):
        raise UnfitError("it has zero points")
    params = QuantParams(QuantScheme(fmt, PerTensor()), np.asarray(given.scale.max()))
    for each in group.entries:
        write_parameters(draft, each, params)
        draft.set_attribute(each.node, "block_size", None)
