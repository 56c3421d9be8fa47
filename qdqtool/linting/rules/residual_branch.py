"""QL303: residual additions that read a float skip branch."""

from qdqtool.linting.rules.support.fix import Draft, Fix, Offer
from qdqtool.linting.rules.support.reach import Walk, operand
from qdqtool.linting.rules.support.rule import CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.types import may_be_equal
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target

SHARED = Offer("unsafe", "lets the Add read the pair that another reader of the skip input has")


class ResidualBranch(Rule):
    """If a quantized Conv is added to a skip branch, the skip branch has a pair.

    Why it matters: the kernel of the Conv also computes the Add. If the skip branch has codes, the kernel reads one
    byte for each value, and the next block can read the same codes. If the skip branch is float, a float copy of the
    whole tensor is kept and read.

    Bad: DQ, Conv, Add with the float input of the block.

    Good: a pair on the skip input, shared with the block if it reads the same tensor. No pair between Conv and Add.
    """

    code = "QL303"
    name = "placement.residual-branch"
    affects = impacts(tensorrt=CAUTION)
    remedy = "put a pair on the skip input, with the scale of the tensor's other pair if it has one"
    offers = (SHARED,)
    VALID = examples("""
        the block's input is quantized once, for both readers:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                c = Conv (xd, wd)
                y = Add (c, xd)
            }
        a bias, which stays float:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0},
             float[1,2,1,1] b = {1, 2}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                c = Conv (xd, wd)
                y = Add (c, b)
            }
    """)
    INVALID = examples("""
        the Add reads the float tensor that the Conv reads as codes:
            agraph (float[1,2,2,2] x) => (float[1,2,2,2] y)
            <float s = {0.1}, int8 z = {0}, int8[2,2,1,1] w = {1,2,3,4}, float[2] ws = {0.1, 0.2}, int8[2] wz = {0,0}> {
                $PAIR_TO_XD
                wd = DequantizeLinear <axis = 0> (w, ws, wz)
                c = Conv (xd, wd)
                y = Add (c, x)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look at each Add that reads a quantized Conv, if nothing else reads that Conv."""
        quantized = {product.node for product in context.products if product.left and product.right}
        for node in context.nodes:
            if not node.is_op("Add"):
                continue
            joined = [_fused_conv(node.input(index)) in quantized for index in (0, 1)]
            if joined[0] == joined[1]:
                continue
            skip = joined.index(False)
            other = node.input(skip)
            if other is not None and _is_float_branch(context, node, other):
                message = f"the Add reads '{other.name}' as float beside a quantized Conv"
                found = "a float skip branch"
                fixes = _fixes(context, node, skip, other)
                yield Fault(message, node, other, found=found, expected="a pair on the skip branch", fixes=fixes)


def _fused_conv(value: Value | None) -> NodeView | None:
    if value is None or value.producer is None or value.is_output or len(value.uses) != 1:
        return None
    product = ops.product(value.producer)
    return value.producer if product is not None and product.fuses_add else None


def _is_float_branch(context: RuleContext, node: NodeView, value: Value) -> bool:
    """Return whether ``value`` is float data with the full shape of the Add that also feeds a Q."""
    left, right = (context.shape(node.input(index)) for index in (0, 1))
    if left is None or right is None or not may_be_equal(left, right):
        return False
    if context.is_constant(value) or operand(Walk(context.index), value) is not None:
        return False
    return bool(_quantizers(context, value))


def _quantizers(context: RuleContext, value: Value) -> list[QdqNode]:
    """Return the Qs that read a tensor as their data."""
    readers = (context.qdq.get(use.node) for use in value.uses if use.index == 0)
    return [entry for entry in readers if entry is not None and entry.is_quantize]


def _fixes(context: RuleContext, node: NodeView, index: int, value: Value) -> tuple[Fix, ...]:
    readers = (reader for entry in _quantizers(context, value) for reader in context.qdq.readers(entry))
    made = (reader.output for reader in readers if reader.output is not None)
    same = next((each for each in made if context.elem_type(each) == context.elem_type(value)), None)
    if same is None:
        return ()
    return (SHARED.fix(f"reads '{same.name}' instead of '{value.name}'", _share, node, index, same),)


def _share(node: NodeView, index: int, made: Value, draft: Draft) -> None:
    draft.require_visible(made, [node])
    draft.set_input(node, index, made.name)
