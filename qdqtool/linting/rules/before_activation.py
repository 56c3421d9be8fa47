"""QL305: pairs between an operator and the activation that is fused into it."""

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import format_of
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqPair
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

SIGNED_ZERO = Offer(
    "unsafe", "moves a pair of a float format behind a Relu; values that round to -0 become 0, nothing else changes"
)
BEHIND = Offer("safe", "moves the pair behind a Relu; a pair keeps 0 and the order of values, so nothing changes")


class BeforeActivation(Rule):
    """There is no pair between a Conv, Gemm or MatMul and the activation after it.

    Why it matters: the activation is computed in the registers of the operator before it. A pair between them rounds
    and clips once more. It also spends half of its codes on values that Relu or Clip removes.

    Bad: Conv, Q, DQ, Relu.

    Good: Conv, Relu, Q, DQ. If the activation is not a Relu, the pair after it needs a new range: calibrate again.
    """

    code = "QL305"
    name = "placement.before-activation"
    affects = impacts(tensorrt=CAUTION)
    remedy = "move the pair behind the activation, and calibrate it there"
    offers = (BEHIND, SIGNED_ZERO)
    cause = "pairs in front of an activation function"
    VALID = examples("""
        the pair stands behind Relu:
            agraph (float[1,2] x) => (float[1,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                xq = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (xq, s, z)
                wd = DequantizeLinear <axis = 1> (w, ws, wz)
                m = MatMul (xd, wd)
                r = Relu (m)
                q = QuantizeLinear (r, s, z)
                y = DequantizeLinear (q, s, z)
            }
    """)
    INVALID = examples("""
        the pair stands in front of Relu:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                xq = QuantizeLinear (x, s, z)
                xd = DequantizeLinear (xq, s, z)
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                [c] c = Conv (xd, wd)
                q = QuantizeLinear (c, s, z)
                d = DequantizeLinear (q, s, z)
                r = Relu (d)
                y = Neg (r)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for pairs between a weighted operator and an activation, without other readers."""
        for pair in context.qdq.pairs:
            data, uses = pair.quantize.data, pair.dequantize.uses
            if data is None or len(data.uses) != 1 or len(uses) != 1:
                continue
            maker, behind = data.producer, uses[0].node
            fused = ops.traits(behind).fused_behind_products and uses[0].index == 0
            if fused and maker is not None and ops.product(maker) is not None:
                message = f"this pair is between {maker.op_type} and {behind.op_type}"
                found = f"{maker.op_type}, Q, DQ, {behind.op_type}"
                expected = f"{maker.op_type}, {behind.op_type}, Q, DQ"
                fixes = _fixes(pair, behind)
                yield Fault(message, pair.quantize.node, data, found=found, expected=expected, fixes=fixes)


def _fixes(pair: QdqPair, behind: NodeView) -> tuple[Fix, ...]:
    if not behind.is_op("Relu"):
        return ()
    # Float codes: small negative numbers round to -0, which Relu keeps; after the Relu there are none.
    codes = format_of(pair.quantize.quantized_type)
    offer = BEHIND if codes is not None and codes.kind == "integer" else SIGNED_ZERO
    return (offer.fix(f"moves the pair behind Relu '{behind.label}'", _move, pair, behind),)


def _move(pair: QdqPair, relu: NodeView, draft: Draft) -> None:
    quantize, dequantize, made = pair.quantize, pair.dequantize, relu.output()
    # The Relu reads the output of the DQ. The output of the Relu may be missing.
    assert dequantize.output is not None
    if len(quantize.uses) != 1 or made is None:
        raise UnfitError("another node reads the codes")
    if any(node.scope is not relu.scope for node in (quantize.node, dequantize.node)):
        raise UnfitError("the pair and the Relu are in different graphs")
    draft.replace(made, dequantize.output.name)
    draft.set_input(relu, 0, quantize.node.input_name(0))
    draft.set_input(quantize.node, 0, made.name)
