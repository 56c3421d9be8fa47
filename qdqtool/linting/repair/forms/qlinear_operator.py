"""Rewrite ONNX Runtime's other operators on codes (QLinearAdd, QGemm, ...) as float operators between DQ and Q.

These operators compute in float32 or with tables, and round once. Codes may differ by one step, as for QLinearConv.
"""

from collections.abc import Iterator, Mapping

from qdqtool.linting.repair.forms._q_operator import FLOATED, Codes, float_bias, write_float
from qdqtool.linting.rules import Draft, Fix, RuleContext, UnfitError
from qdqtool.models.graph.index.view import NodeView

DOMAIN = "com.microsoft"

OPERATORS: Mapping[str, str] = {
    "QGemm": "Gemm",
    "QLinearAdd": "Add",
    "QLinearAveragePool": "AveragePool",
    "QLinearConcat": "Concat",
    "QLinearGlobalAveragePool": "GlobalAveragePool",
    "QLinearLeakyRelu": "LeakyRelu",
    "QLinearMul": "Mul",
    "QLinearSigmoid": "Sigmoid",
    "QLinearSoftmax": "Softmax",
}
"""The corresponding float operators."""

OF_TWO = frozenset({"QLinearAdd", "QLinearMul"})

FIRST_OPSET_OF_SOFTMAX_ALONG_ONE_AXIS = 13


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every operator of :data:`OPERATORS`."""
    for node in context.nodes:
        if node.domain == DOMAIN and node.op_type in OPERATORS:
            words = f"writes {node.op_type} as {OPERATORS[node.op_type]} between DQ and Q"
            yield node, FLOATED.fix(words, _write, node)


def _write(node: NodeView, draft: Draft) -> None:
    if node.op_type == "QLinearSoftmax":
        _check_softmax(node, draft)
    if node.attribute("channels_last", 0):
        raise UnfitError("its channels are on the last axis (channels_last)")
    operands, result = _places(node)
    bias = float_bias(draft, node, 6, (1, 4)) if node.op_type == "QGemm" else ""
    # ONNX Runtime defines the scale of this bias as alpha / beta * a_scale * b_scale.
    if bias and node.attribute("alpha", 1.0) != 1:
        raise UnfitError("its alpha is not 1")
    for name in ("channels_last", "opset"):
        draft.set_attribute(node, name, None)
    write_float(draft, node, OPERATORS[node.op_type], operands, result, bias)


def _places(node: NodeView) -> tuple[list[Codes], Codes]:
    """Return the positions of the quantized inputs, and of the scale of the output."""
    if node.op_type == "QLinearConcat":
        starts = range(2, len(node.proto.input), 3)
        return [Codes(start, start + 1, start + 2) for start in starts], Codes(None, 0, 1)
    if node.op_type == "QGemm":
        axis = 0 if node.attribute("transB", 0) else 1
        # Without an output scale, QGemm returns float32.
        if not node.input_name(7):
            raise UnfitError("its output is float")
        return [Codes(0, 1, 2), Codes(3, 4, 5, axis=axis)], Codes(None, 7, 8)
    if node.op_type in OF_TWO:
        return [Codes(0, 1, 2), Codes(3, 4, 5)], Codes(None, 6, 7)
    return [Codes(0, 1, 2)], Codes(None, 3, 4)


def _check_softmax(node: NodeView, draft: Draft) -> None:
    """Refuse a QLinearSoftmax whose axis has another meaning in the opset of the model."""
    # Its attribute ``opset`` defines the meaning of ``axis``: below 13, Softmax sums over all axes from ``axis`` on.
    shape, first = draft.context.shape(node.input(0)), FIRST_OPSET_OF_SOFTMAX_ALONG_ONE_AXIS
    along_one = node.attribute("opset", first) >= first
    last = shape is not None and node.attribute("axis", -1) in {-1, len(shape) - 1}
    if along_one != (node.scope.opset >= first) and not last:
        raise UnfitError("its axis has another meaning at the opset of the model")
