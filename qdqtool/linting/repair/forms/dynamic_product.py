"""Rewrite products of data that is quantized at run time as products of float data and a DQ of the same weight codes.

TensorRT has no kernel that reads the scale of int8 data at run time (DynamicQuantizeLinear, MatMulInteger). The codes
and scales of the weight do not change. The data is no longer rounded, so the outputs change: they are nearer to the
float model. ``qdqtool quantize --existing keep`` gives the data static pairs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from qdqtool.linting.repair.forms._chain import result_of
from qdqtool.linting.repair.forms._dynamic import dequantized, float_data, scaled
from qdqtool.linting.rules import Draft, Fix, Offer, RuleContext, UnfitError
from qdqtool.models.graph.index.view import NodeView, Value

FLOATED = Offer("unsafe", "lets a product read float data instead of data that is quantized at run time")

MICROSOFT = "com.microsoft"
LSTM = "DynamicQuantizeLSTM"


@dataclass(frozen=True, slots=True)
class Layout:
    """The input indices of an operator on data that is quantized at run time; the codes of the weight are input 1.

    Attributes:
        op_type: The float operator that computes the same product.
        zero_point: Index of the weight's zero point.
        data_zero_point: Index of the data's zero point; None if the data is float.
        scale: Index of the weight's scale; None if a Mul after the operator applies it.
        data_scale: Index of the data's scale; None if a Mul applies it, or if the data is float.
        bias: Index of the bias; None if the operator has no bias.
    """

    op_type: str
    zero_point: int
    data_zero_point: int | None = None
    scale: int | None = None
    data_scale: int | None = None
    bias: int | None = None


LAYOUTS: Mapping[tuple[str, str], Layout] = {
    ("", "ConvInteger"): Layout("Conv", 3, 2),
    ("", "MatMulInteger"): Layout("MatMul", 3, 2),
    (MICROSOFT, "DynamicQuantizeMatMul"): Layout("MatMul", 3, scale=2, bias=4),
    (MICROSOFT, "MatMulIntegerToFloat"): Layout("MatMul", 5, 4, scale=3, data_scale=2, bias=6),
}


def find(context: RuleContext) -> Iterator[tuple[NodeView, Fix]]:
    """Yield every product of data that is quantized at run time."""
    for node in context.nodes:
        layout = LAYOUTS.get((node.domain, node.op_type))
        if layout is not None:
            words = f"writes {node.op_type} as {layout.op_type} of float data and the dequantized weight"
            yield node, FLOATED.fix(words, _write, node, layout)
        elif node.domain == MICROSOFT and node.op_type == LSTM:
            yield node, FLOATED.fix(f"writes {LSTM} as LSTM", _leave)


def _write(node: NodeView, layout: Layout, draft: Draft) -> None:
    data = _data(node, layout)
    draft.require_visible(data, [node])
    if layout.scale is None:
        chain = scaled(draft.context, node, data)
        scale, removed, result = chain.scale, chain.nodes, chain.result
    else:
        found = draft.context.array(node.input(layout.scale))
        if found is None:
            raise UnfitError("the scale of its weight is not constant")
        scale, removed, result = found, (), result_of(node)
    weight = dequantized(draft, node, layout.zero_point, scale, layout.op_type)
    bias = node.input_name(layout.bias) if layout.bias is not None else ""
    for index in range(2, len(node.proto.input)):
        draft.set_input(node, index, "")
    draft.set_input(node, 0, data.name)
    draft.set_input(node, 1, weight)
    draft.set_operator(node, layout.op_type)
    for each in removed:
        draft.remove(each)
    _name_result(node, result, bias, draft)


def _data(node: NodeView, layout: Layout) -> Value:
    """Return the float tensor that the product reads instead of codes."""
    if layout.data_zero_point is None:
        data = node.input(0)
        if data is None:
            raise UnfitError("it has no input")
        return data
    scale = node.input(layout.data_scale) if layout.data_scale is not None else None
    return float_data(node.input(0), scale, node.input(layout.data_zero_point))


def _name_result(node: NodeView, result: Value, bias: str, draft: Draft) -> None:
    """Make the result with the float product, and an Add of the bias if there is a bias."""
    if not bias:
        if node.output() is not result:
            draft.rename_output(node, result.name)
        return
    made = draft.namer.tensor(f"{result.name}_MatMul_Output")
    draft.rename_output(node, made)
    draft.place(node.scope, "Add", (made, bias), result.name)


def _leave(draft: Draft) -> None:
    del draft
    raise UnfitError("no operator of ONNX reads its weights as they are stored: quantize the float model again")
