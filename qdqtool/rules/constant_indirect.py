"""QL312: stored codes that reach their DQ through another operator."""

from collections.abc import Iterator
from functools import partial

import onnx
from onnx import TensorProto

from qdqtool.graph.index.qdq import QdqNode
from qdqtool.graph.index.view import NodeView
from qdqtool.rules.support.fix import Draft, Fix, Offer, UnfitError
from qdqtool.rules.support.rule import REFUSED, Example, Fault, Rule, impacts
from qdqtool.rules.support.rule_context import RuleContext
from qdqtool.rules.support.words import kind
from qdqtool.targets import Target
from qdqtool.targets import get as get_target

STORED = Offer("safe", "stores what the operators between make of the codes")


class ConstantIndirect(Rule):
    """Stored codes feed their DQ directly.

    Why it matters: TensorRT keeps a constant of a quantized type only in front of a DQ. With an Identity, Transpose or
    Reshape between them the parser is content and the builder stops, naming a tensor that is in no file.

    Bad: int8 weight, Transpose, DQ.

    Good: int8 weight, DQ, Transpose (still computed in int8), or codes that are stored transposed.
    """

    code = "QL312"
    name = "placement.constant-indirect"
    affects = impacts(tensorrt=REFUSED)
    remedy = "move the operator behind the DQ, or store its result"
    offers = (STORED,)
    VALID = (
        Example(
            "the Transpose comes after",
            """
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                wt = Transpose <perm = [1, 0]> (wd)
                y = MatMul (x, wt)
            }
            """,
        ),
    )
    INVALID = (
        Example(
            "the Transpose comes between",
            """
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wt = Transpose <perm = [1, 0]> (w)
                wd = DequantizeLinear (wt, ws, wz)
                y = MatMul (x, wd)
            }
            """,
        ),
        Example(
            "an Identity",
            """
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wi = Identity (w)
                wd = DequantizeLinear (wi, ws, wz)
                y = MatMul (x, wd)
            }
            """,
        ),
    )

    def check(self, context: RuleContext, target: Target) -> Iterator[Fault]:
        """Look for constant codes that another operator hands on."""
        del target
        for entry in context.qdq.dequantizers():
            data = entry.data
            if data is None or data.producer is None or data.producer.is_op("Constant", "QuantizeLinear"):
                continue
            if (
                context.qdq.maker(data) is None
                and context.constants.is_constant(data)
                and not _folds(context, data.producer)
            ):
                yield Fault(
                    message=f"stored codes reach this DQ through {data.producer.op_type} '{data.producer.label}'",
                    node=entry.node,
                    tensor=data,
                    found=data.producer.op_type,
                    expected="the initializer or Constant itself",
                    fixes=(Fix(STORED, "stores the codes as they reach the DQ", partial(_store, entry)),),
                )


def _store(entry: QdqNode, draft: Draft) -> None:
    assert entry.data is not None
    codes, onnx_type = draft.context.constants.array(entry.data), entry.quantized_type
    if codes is None or onnx_type is None:
        raise UnfitError("the constant is too large to fold, or its type is unknown")
    like = onnx.TensorProto(data_type=onnx_type, dims=codes.shape)
    name = draft.weights(entry.node.scope, f"{entry.data.name}_stored", like, lambda: codes)
    draft.set_input(entry.node, 0, name)


def _folds(context: RuleContext, cast: NodeView) -> bool:
    """Return whether TensorRT folds the operator between the stored constant and the DQ."""
    # Measured with TensorRT for RTX 1.7.1: a Cast to int8 of int32, int64, uint8 or float constants builds, a Cast of
    # int8 does not.
    if not cast.is_op("Cast") or cast.attribute("to") != TensorProto.INT8:
        return False
    return kind(context.elem_type(cast.input(0))) not in get_target("tensorrt").quantize_types
