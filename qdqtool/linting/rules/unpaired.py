"""QS007: a Q without DQ, or a DQ without Q."""

from qdqtool.linting.rules.fixes.code_operators import CLIPPED, SAME_TYPE, cast_fixes, clip_fixes
from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import ADVICE, REFUSED, SUSPECT, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import MAX_STEPS, RuleContext
from qdqtool.linting.rules.support.words import accepts
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Use, Value
from qdqtool.models.targets import Target

TAKEN_OUT = Offer("safe", "removes a Q that nothing reads")


class Unpaired(Rule):
    """Only a DQ reads codes, and a DQ reads only codes.

    Why it matters: arithmetic on codes is not arithmetic on the represented values: for example, a sum of two int8
    tensors wraps around. Operators that only move values (Transpose, Reshape, MaxPool, Slice) are allowed between Q and
    DQ. Two other operators hide the pair from tools that look for pairs. Brevitas writes a Clip of codes for a narrow
    range, and FX exports of PyTorch write a Cast to the type of the codes.

    Bad: Q, Add, DQ. Q, Clip, DQ.

    Good: Q, DQ, Add, Q, DQ; stored codes and graph inputs or outputs of codes are fine too.
    """

    code = "QS007"
    name = "placement.unpaired"
    affects = impacts(onnx=SUSPECT, ort_cpu=SUSPECT, tensorrt=SUSPECT)
    remedy = (
        "add the missing half of the pair, or remove the other half; `qdqtool normalize MODEL -o OUT` removes a Clip of"
        " codes and a Cast to the same type"
    )
    offers = (TAKEN_OUT, CLIPPED, SAME_TYPE)
    VALID = examples("""
        a graph input of codes, and codes as graph output:
            agraph (int8[1,4] x) => (int8[1,4] y) <float s = {0.1}, int8 z = {0}> {
                xd = DequantizeLinear (x, s, z)
                r = Relu (xd)
                y = QuantizeLinear (r, s, z)
            }
        a Transpose of codes:
            agraph (float[2,3] x) => (float[3,2] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                t = Transpose <perm = [1, 0]> (q)
                y = DequantizeLinear (t, s, z)
            }
    """)
    INVALID = examples("""
        an Add of codes:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                a = Add (q, q)
                y = DequantizeLinear (a, s, z)
            }
        a Sigmoid of codes, which has no kernel anywhere:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                a = Sigmoid (q)
                y = DequantizeLinear (a, s, z)
            }
        a Clip of codes to a narrow range:
            agraph (float[1,4] x) => (float[1,4] y)
            <float s = {0.1}, int8 z = {0}, int8 low = {-127}, int8 high = {127}> {
                q = QuantizeLinear (x, s, z)
                c = Clip (q, low, high)
                y = DequantizeLinear (c, s, z)
            }
        a Cast of codes to the type that they have:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                c = Cast <to = 3> (q)
                y = DequantizeLinear (c, s, z)
            }
        nothing reads the codes:
            agraph (float[1,4] x) => (float[1,4] y) <float s = {0.1}, int8 z = {0}> {
                q = QuantizeLinear (x, s, z)
                y = Relu (x)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the nodes that read the output of each Q, and at the node that makes the data of each DQ."""
        for entry in context.qdq.nodes:
            if entry.is_quantize:
                yield from _quantize_faults(context, entry, target)
            else:
                yield from _dequantize_faults(context, entry)


def _quantize_faults(context: RuleContext, entry: QdqNode, target: Target) -> Faults:
    output = entry.output
    if output is None:
        return
    if not output.uses and not output.is_output:
        fix = TAKEN_OUT.fix("removes the Q", _take_out, entry)
        yield Fault("nothing reads the output of this Q", entry.node, output, impact=ADVICE, fixes=(fix,))
    for use in output.uses:
        # Rule placement.operand-types reports a product of codes.
        multiplies = ops.product(use.node) is not None
        if context.qdq.get(use.node) is not None or multiplies or _hands_on(use.node):
            continue
        refused = _refuses(use, entry, target)
        if _keeps_meaning(use.node) and not refused:
            continue
        message = f"the codes of this Q are read by {use.node.op_type} '{use.node.label}'"
        found = use.node.op_type
        impact = REFUSED if refused else None
        fixes = clip_fixes(context, use.node) or cast_fixes(context, use.node)
        yield Fault(message, entry.node, output, found=found, expected="DequantizeLinear", impact=impact, fixes=fixes)


def _take_out(entry: QdqNode, draft: Draft) -> None:
    draft.remove(entry.node)


def _refuses(use: Use, entry: QdqNode, target: Target) -> bool:
    if target.family == "tensorrt":
        return ops.traits(use.node).lacks_int8
    return not accepts(use.node, use.index, entry.quantized_type)


def _keeps_meaning(node: NodeView) -> bool:
    """Return whether a node has the same effect on codes as on the values that they represent."""
    return ops.moves_codes(node) or ops.traits(node).keeps_order_only


def _hands_on(node: NodeView) -> bool:
    """Return whether it is unknown how a node uses an input: a function, a subgraph, or a vendor operator."""
    return bool(node.domain) or node.is_op("If", "Loop", "Scan", "Concat")


def _dequantize_faults(context: RuleContext, entry: QdqNode) -> Faults:
    maker = _maker(context, entry.data)
    if maker is not None:
        message = f"this DQ reads the output of {maker.op_type} '{maker.label}'"
        expected = "codes of a Q, stored codes, or an input"
        fixes = clip_fixes(context, maker)
        yield Fault(message, entry.node, entry.data, found=maker.op_type, expected=expected, fixes=fixes)


def _maker(context: RuleContext, value: Value | None) -> NodeView | None:
    """Return the operator that computes the data of a DQ, or None if the DQ reads codes."""
    for _ in range(MAX_STEPS):
        producer = value.producer if value is not None else None
        if producer is None or context.qdq.get(producer) is not None or _hands_on(producer) or not producer.proto.input:
            return None
        if not _keeps_meaning(producer):
            assert value is not None
            is_constant = context.constants.is_constant(value)
            # ConvInteger and MatMulInteger return int32 sums, which a DQ may scale; a Cast may produce codes.
            return None if is_constant or producer.is_op("Cast") or "Integer" in producer.op_type else producer
        value = producer.input(0)
    return None
