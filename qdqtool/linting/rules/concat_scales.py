"""QL304: joined tensors with different scales."""

import numpy as np

from qdqtool.linting.findings import Extent
from qdqtool.linting.rules.fixes.code_group import CodeGroup
from qdqtool.linting.rules.fixes.stored import parameters, write_parameters
from qdqtool.linting.rules.support.extents import octaves
from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext, as_reals
from qdqtool.linting.rules.support.words import format_of, number
from qdqtool.models.graph.index.qdq import QdqNode, same_constant
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target
from qdqtool.numerics.granularity import PerTensor
from qdqtool.numerics.scheme import QuantParams, QuantScheme

UNIFIED = Offer("unsafe", "gives all inputs and the output of the Concat the largest of their scales")


class ConcatScales(Rule):
    """The inputs of a Concat between DQs and Qs have one scale.

    Why it matters: codes with the same scale can be joined directly. With different scales every input is dequantized,
    joined in float and quantized again. This is slower, and every value is rounded twice.

    Bad: DQ with 0.1 and DQ with 0.2 in front of a Concat whose output is quantized.

    Good: the largest of the scales for all inputs and the output.
    """

    code = "QL304"
    name = "placement.concat-scales"
    affects = impacts(tensorrt=CAUTION)
    remedy = "give all inputs the largest of their scales, or leave the Concat unquantized"
    offers = (UNIFIED,)
    VALID = examples("""
        one scale:
            agraph (float[1,2] a, float[1,2] b) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                aq = QuantizeLinear (a, s, z)
                ad = DequantizeLinear (aq, s, z)
                bq = QuantizeLinear (b, s, z)
                bd = DequantizeLinear (bq, s, z)
                c = Concat <axis = 1> (ad, bd)
                q = QuantizeLinear (c, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)
    INVALID = examples("""
        two scales:
            agraph (float[1,2] a, float[1,2] b) => (float[1,4] y) <float s = {0.1}, float t = {0.2}, int8 z = {0}> {
                aq = QuantizeLinear (a, s, z)
                ad = DequantizeLinear (aq, s, z)
                bq = QuantizeLinear (b, t, z)
                bd = DequantizeLinear (bq, t, z)
                c = Concat <axis = 1> (ad, bd)
                q = QuantizeLinear (c, t, z)
                y = DequantizeLinear (q, t, z)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the input scales of each Concat between DQs and Qs."""
        for node in context.nodes:
            if not node.is_op("Concat"):
                continue
            inputs = [context.qdq.dequantizer_of(value) for value in node.inputs]
            entries = [entry for entry in inputs if entry is not None]
            if len(entries) < max(2, len(inputs)) or not _is_quantized_again(context, node):
                continue
            first, *others = entries
            others = [entry for entry in others if same_constant(first.scale, entry.scale, context.constants) is False]
            if others:
                unlike = others[0]
                given, wanted, extent = _scale(context, unlike), _scale(context, first), _extent(context, first, others)
                message = f"inputs of this Concat have scales {wanted} and {given}"
                fix = UNIFIED.fix("gives inputs and output the largest scale", _unify, node)
                yield Fault(message, node, unlike.output, found=given, expected=wanted, extent=extent, fixes=(fix,))


def _is_quantized_again(context: RuleContext, node: NodeView) -> bool:
    output = node.output()
    readers = [context.qdq.get(use.node) for use in output.uses] if output is not None else []
    return bool(readers) and all(entry is not None and entry.is_quantize for entry in readers)


def _extent(context: RuleContext, first: QdqNode, others: list[QdqNode]) -> Extent:
    """Return how many inputs have another scale than the first, with the largest difference in powers of two."""
    wanted, given = context.array(first.scale), [context.array(entry.scale) for entry in others]
    if wanted is None or any(each is None or each.size != wanted.size for each in given):
        return Extent("scales of other shapes", len(others))
    off = [
        octaves(as_reals(each).reshape(-1), as_reals(wanted).reshape(-1)).max() for each in given if each is not None
    ]
    return Extent("", len(others), float(max(off)))


def _scale(context: RuleContext, entry: QdqNode) -> str:
    values = context.array(entry.scale)
    if values is None or values.size != 1:
        return f"'{entry.node.input_name(1)}'"
    return number(values.reshape(()))


def _unify(node: NodeView, draft: Draft) -> None:
    qdq = draft.context.qdq
    sources = [qdq.dequantizer_of(value) for value in node.inputs]
    output = node.output()
    behind = [qdq.get(use.node) for use in output.uses] if output is not None else []
    groups = [CodeGroup.of(draft.context, entry) for entry in (*sources, *behind) if entry is not None]
    entries = list(dict.fromkeys(entry for group in groups for entry in group.entries))
    given = [parameters(draft.context, entry) for entry in entries]
    fmt = format_of(entries[0].quantized_type)
    if fmt is None or any(group.constants for group in groups) or len({each.quantized_type for each in entries}) > 1:
        raise UnfitError("some of the codes are stored, or have another type than the others")
    if any(each.zero_point is not None and np.any(as_reals(each.zero_point)) for each in given):
        raise UnfitError("they have zero points")
    if any(each.granularity != PerTensor() for each in given):
        raise UnfitError("they have several scales each")
    largest = max((each.scale.reshape(()) for each in given), key=float)
    for entry in entries:
        write_parameters(draft, entry, QuantParams(QuantScheme(fmt, PerTensor()), largest))
