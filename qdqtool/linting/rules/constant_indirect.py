"""QL312: stored codes that reach their DQ through another operator."""

from collections.abc import Iterator

import onnx
from onnx import TensorProto

from qdqtool.linting.rules.support.fix import Draft, Offer, UnfitError
from qdqtool.linting.rules.support.reach import reachable
from qdqtool.linting.rules.support.rule import REFUSED, Fault, Faults, Rule, examples, impacts
from qdqtool.linting.rules.support.rule_context import MAX_STEPS, RuleContext
from qdqtool.linting.rules.support.words import is_operator, kind
from qdqtool.models import ops
from qdqtool.models.graph.index.qdq import QdqNode
from qdqtool.models.graph.index.view import NodeView, Value
from qdqtool.models.targets import Target
from qdqtool.models.targets import get as get_target

STORED = Offer("safe", "stores the codes as the operators in front of the DQ compute them")

READS_CODES = (
    *("QuantizeLinear", "DequantizeLinear"),
    # The bounds of a Clip and the value of a Pad are read while the model is imported.
    *("Clip", "Pad"),
    # Uses of a constant inside a subgraph are checked in the subgraph.
    *("If", "Loop", "Scan"),
    # Rule QT403 (operators of other formats) reports these.
    *("QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"),
)
"""Operators that may read a constant of a quantized type, or that another rule reports."""


class ConstantIndirect(Rule):
    """Stored codes feed their DQ directly.

    Why it matters: TensorRT keeps a constant of a quantized type only in front of a DQ. If an Identity, Transpose,
    Reshape, Concat, Gather or Cast is between them, the parser accepts the model, but the builder stops. Its message
    names a tensor that is not in the file.

    Bad: int8 weight, Transpose, DQ.

    Good: int8 weight, DQ, Transpose (still computed in int8). Or codes that are stored transposed.
    """

    code = "QL312"
    name = "placement.constant-indirect"
    affects = impacts(tensorrt=REFUSED)
    remedy = (
        "store the codes as they reach the DQ (`qdqtool normalize MODEL -o OUT`), or move the operator behind the DQ"
    )
    offers = (STORED,)
    VALID = examples("""
        the Transpose comes after:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wd = DequantizeLinear (w, ws, wz)
                wt = Transpose <perm = [1, 0]> (wd)
                y = MatMul (x, wt)
            }
    """)
    INVALID = examples("""
        the Transpose comes between:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wt = Transpose <perm = [1, 0]> (w)
                wd = DequantizeLinear (wt, ws, wz)
                y = MatMul (x, wd)
            }
        codes that are joined with those of a Q:
            agraph (float[1,4] x) => (float[2,4] y) <float s = {0.1}, int8 z = {0}, int8[1,4] k = {1,2,3,4}> {
                q = QuantizeLinear (x, s, z)
                c = Concat <axis = 0> (q, k)
                y = DequantizeLinear (c, s, z)
            }
        a table of codes that a Gather reads:
            agraph (int64[1] i) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}> {
                row = Gather (w, i)
                y = Cast <to = 1> (row)
            }
        an Identity:
            agraph (float[1,2] x) => (float[1,2] y) <int8[2,2] w = {1,2,3,4}, float ws = {0.1}, int8 wz = {0}> {
                wi = Identity (w)
                wd = DequantizeLinear (wi, ws, wz)
                y = MatMul (x, wd)
            }
    """)

    def check(self, context: RuleContext, target: Target) -> Faults:
        """Look for constant codes that another operator passes to a DQ, and for other readers of stored codes."""
        reported: set[NodeView] = set()
        for entry in context.qdq.dequantizers():
            data = entry.data
            if data is None or data.producer is None or data.producer.is_op("Constant", "QuantizeLinear"):
                continue
            if (
                context.qdq.maker(data) is None
                and context.constants.is_constant(data)
                and not _folds(context, data.producer)
            ):
                reported.update(reachable([data.producer], _makers))
                message = f"stored codes reach this DQ through {data.producer.op_type} '{data.producer.label}'"
                expected = "the initializer or Constant itself"
                fix = STORED.fix("stores the codes as they reach the DQ", _store, entry)
                yield Fault(message, entry.node, data, found=data.producer.op_type, expected=expected, fixes=(fix,))
        for node, value in _other_readers(context, target):
            if node not in reported:
                message = f"this {node.op_type} reads '{value.name}', a constant of {kind(context.elem_type(value))}"
                yield Fault(message, node, value, found=node.op_type, expected="DequantizeLinear")


def _makers(node: NodeView) -> Iterator[NodeView | None]:
    return (value.producer for value in node.present_inputs)


def _other_readers(context: RuleContext, target: Target) -> Iterator[tuple[NodeView, Value]]:
    """Yield every operator besides Q and DQ that reads a constant of a quantized type, with that constant."""
    for value in context.view.values():
        stored = context.constants.direct(value)
        if stored is None or kind(stored.data_type) not in target.quantize_types:
            continue
        for use in value.uses:
            node = use.node
            # A plug-in may read codes.
            known = not node.domain and is_operator(node.op_type)
            if not known or node.is_op(*READS_CODES) or ops.product(node) is not None:
                continue
            if not _makes_zero_point(context, node):
                yield node, value


def _makes_zero_point(context: RuleContext, node: NodeView) -> bool:
    """Return whether a node passes a constant only to zero points, which the parser folds."""
    output = node.output()
    for _ in range(MAX_STEPS):
        if output is None or len(output.uses) != 1 or not output.uses[0].node.is_op("Identity"):
            break
        output = output.uses[0].node.output()
    uses = output.uses if output is not None else []
    return bool(uses) and all(use.index == 2 and context.qdq.get(use.node) is not None for use in uses)


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
    # Measured with TensorRT for RTX: a Cast to int8 of int32, int64, uint8 or float constants builds, a Cast of
    # int8 does not.
    if not cast.is_op("Cast") or cast.attribute("to") != TensorProto.INT8:
        return False
    return kind(context.elem_type(cast.input(0))) not in get_target("tensorrt").quantize_types
