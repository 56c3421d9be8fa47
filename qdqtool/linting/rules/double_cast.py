"""QL319: two Casts in a row that end in the type in which they begin."""

from onnx import TensorProto

from qdqtool.linting.rules.support.fix import Draft, Offer
from qdqtool.linting.rules.support.rule import ADVICE, CAUTION, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import FLOAT_TYPES, kind
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target

REMOVED = Offer("safe", "removes a Cast to float32 and back, which changes no value")
UNROUNDED = Offer("unsafe", "removes a Cast to half precision and back; values are no longer rounded to that type")


class DoubleCast(Rule):
    """No Cast is followed by a Cast back to the type of the first input.

    Why it matters: float32 to float16 and back rounds every value to 11 bits, and values beyond 65504 become infinite.
    Nothing is computed in float16 in return. Behind a DQ, TensorRT for RTX then computes the Conv in float. float16 to
    float32 and back changes nothing: TensorRT removes it, ONNX Runtime runs both Casts.

    Bad: Cast to float16, Cast to float32.

    Good: no Cast.
    """

    code = "QL319"
    name = "placement.double-cast"
    affects = impacts(onnx=CAUTION, ort_cpu=CAUTION, tensorrt=CAUTION)
    remedy = "remove both Casts"
    offers = (REMOVED, UNROUNDED)
    VALID = examples("""
        a node between the Casts computes in float16:
            agraph (float[1,4] x) => (float[1,4] y) {
                h = Cast <to = 10> (x)
                r = Exp (h)
                y = Cast <to = 1> (r)
            }
    """)
    INVALID = examples("""
        float32 is rounded to float16:
            agraph (float[1,4] x) => (float[1,4] y) {
                h = Cast <to = 10> (x)
                f = Cast <to = 1> (h)
                y = Exp (f)
            }
        float16 to float32 and back:
            agraph (float16[1,4] x) => (float16[1,4] y) {
                f = Cast <to = 1> (x)
                h = Cast <to = 10> (f)
                y = Exp (h)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Compare the types around every pair of Casts."""
        for node in context.nodes:
            between = node.input(0) if node.is_op("Cast") else None
            first = between.producer if between is not None else None
            source = first.input(0) if first is not None and first.is_op("Cast") else None
            types = context.elem_type(source), context.elem_type(between), context.elem_type(node.output())
            # A Cast of a constant is folded.
            if source is None or context.constants.is_constant(source):
                continue
            if types[0] == types[1] or types[0] != types[2] or not FLOAT_TYPES.issuperset(types):
                continue
            begin, middle = kind(types[0]), kind(types[1])
            is_wide = types[1] == TensorProto.FLOAT
            if not is_wide and between is not None and (between.is_output or _is_rounded_again(node, types[1])):
                continue
            effect = "changes no value" if is_wide else f"only rounds the values to {middle}"
            offer = REMOVED if is_wide else UNROUNDED
            yield Fault(
                f"a Cast from {begin} to {middle} and back {effect}",
                node,
                between,
                found=f"{begin}, {middle}, {begin}",
                expected="no Cast",
                impact=ADVICE if is_wide else None,
                fixes=(offer.fix("removes both Casts", _remove, node, source),),
            )


def _is_rounded_again(node: NodeView, onnx_type: int | None) -> bool:
    """Return whether every reader of a Cast casts the values to a type that holds them already."""
    uses = made.uses if (made := node.output()) is not None and not made.is_output else ()
    return bool(uses) and all(use.node.is_op("Cast") and use.node.attribute("to") == onnx_type for use in uses)


def _remove(cast: NodeView, source: Value, draft: Draft) -> None:
    back = cast.output()
    assert back is not None
    draft.require_visible(source, [use.node for use in back.uses])
    draft.replace(back, source.name)
