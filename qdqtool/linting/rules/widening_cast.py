"""QL313: a Cast to a wider type between a DQ and its consumer."""

import numpy as np
from onnx import TensorProto

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.linting.rules.support.reach import Operand
from qdqtool.linting.rules.support.rule import FALLBACK, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import HALF_TYPES, kind
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView
from qdqtool.models.targets import Target

FLOAT32 = Offer("unsafe", "gives the DQ a float32 scale of the same value, and removes the Cast")


class WideningCast(Rule):
    """There is no Cast from float16 or bfloat16 to float32 between a DQ and its Conv, Gemm or MatMul.

    Why it matters: the Cast keeps the rounding of the DQ to 16 bits, so the compiler cannot use the codes after it. The
    layer runs in float, or dequantizes within a mixed kernel. A Cast in the other direction is fused into the layer.
    The compiler also fuses Casts of all operands if a Cast back directly follows the layer, and a Cast that another one
    reverses in front of the layer.

    Bad: DQ with a float16 scale, Cast to float32, Conv.

    Good: a float32 scale, so that the DQ makes float32; or the whole layer in float16.
    """

    code = "QL313"
    name = "placement.widening-cast"
    affects = impacts(tensorrt=FALLBACK)
    remedy = "store the scale in the type that the consumer needs, and remove the Cast"
    offers = (FLOAT32,)
    VALID = examples("""
        a Cast from float32 to float16 is absorbed:
            agraph (float[1,2,2,2] x) => (float16[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                xc = Cast <to = 10> (xd)
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                wc = Cast <to = 10> (wd)
                [c] y = Conv (xc, wc)
            }
    """)
    INVALID = examples("""
        the weight is cast from float16 (bits 11878 are 0.1) to float32:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float16[2] ws = {11878, 12902},
             int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                wc = Cast <to = 1> (wd)
                [c] y = Conv (xd, wc)
            }
        the activation is cast:
            agraph (float16[1,2,2,2] x) => (float[1,2,2,2] y)
            <float16 s = {11878}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2},
             int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                xc = Cast <to = 1> (xd)
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                [c] y = Conv (xc, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at the operators between each operand and its DQ, if both operands have a DQ."""
        for product in context.products:
            if product.left is None or product.right is None:
                continue
            sides = (product.left, product.right)
            casts = [_widening(context, side) for side in sides]
            given = {context.elem_type(cast.input(0)) if cast is not None else None for cast in casts}
            if _is_narrowed(product.node, given):
                continue
            for side, cast in zip(sides, casts, strict=True):
                if cast is not None:
                    message = (
                        f"Cast '{cast.label}' from {kind(context.elem_type(cast.input(0)))} to float32 "
                        f"stands between this DQ and {product.node.op_type} '{product.node.label}'"
                    )
                    node, found, expected = side.dequantize.node, "Cast to float32", "a DQ that makes float32"
                    yield Fault(message, node, cast.output(), found=found, expected=expected, fixes=_fixes(side, cast))


def _widening(context: RuleContext, side: Operand) -> NodeView | None:
    """Return the last Cast from half precision to float32 that no Cast behind it reverses."""
    narrowed = None
    for node in side.between:
        if node.is_op("Cast"):
            given = context.elem_type(node.input(0))
            if node.attribute("to") == TensorProto.FLOAT and given in HALF_TYPES and given != narrowed:
                return node
            narrowed = node.attribute("to")
        elif not ops.traits(node).passes_casts:
            narrowed = None
    return None


def _is_narrowed(node: NodeView, given: set[int | None]) -> bool:
    """Return whether only Casts to the one type of the operands read the output of a layer."""
    uses = made.uses if (made := node.output()) is not None and not made.is_output else ()
    return bool(uses) and all(use.node.is_op("Cast") and {use.node.attribute("to")} == given for use in uses)


def _fixes(side: Operand, cast: NodeView) -> tuple[Fix, ...]:
    if side.between != (cast,):
        return ()
    return (FLOAT32.fix("dequantizes to float32 and removes the Cast", _widen, side.dequantize, cast),)


def _widen(entry: QdqNode, cast: NodeView, draft: Draft) -> None:
    made, scale, wide = entry.output, draft.context.array(entry.scale), cast.output()
    if made is None or wide is None or scale is None or entry.output_dtype is not None:
        raise UnfitError("its scale is not constant, or output_dtype sets its type")
    if len(made.uses) != 1:
        raise UnfitError("another node reads the output of the DQ")
    draft.set_constant(entry.node, 1, scale.astype(np.float32))
    draft.set_type(made, TensorProto.FLOAT)
    draft.replace(wide, made.name)
