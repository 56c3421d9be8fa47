"""The first opset of each type, attribute and granularity of Q and DQ."""

from collections.abc import Iterator

from qdqtool.linting.rules.support.rule_context import RuleContext
from qdqtool.linting.rules.support.words import format_of, kind
from qdqtool.models.graph.index.qdq import FIRST_OPSET_WITH_AXIS, QdqNode
from qdqtool.models.targets import Target

FIRST_OPSET = 10
PER_AXIS = "per-axis scales"
FIRST_OPSET_WITH_BLOCKS = 21
FIRST_OPSET_OF_SCALE = {"float16": 19, "bfloat16": 19, "float8e8m0": 24}
FIRST_OPSET_OF_ATTRIBUTE = {
    "QuantizeLinear": {"axis": 13, "saturate": 19, "block_size": 21, "output_dtype": 21, "precision": 23},
    "DequantizeLinear": {"axis": 13, "block_size": 21, "output_dtype": 23},
}


def reads_axis_1(entry: QdqNode, target: Target) -> bool:
    """Return whether the target reads several scales on axis 1 although the opset knows one scale only.

    ONNX Runtime does, below opset 13. The rule about opsets (QS004) reports these, whatever the axis.
    """
    return target.family == "ort-cpu" and entry.is_standard and entry.node.scope.opset < FIRST_OPSET_WITH_AXIS


def needs(context: RuleContext, entry: QdqNode) -> Iterator[tuple[str, int]]:
    """Yield the features that a Q or DQ uses, in words, each with the first opset that has it."""
    yield "Q/DQ", FIRST_OPSET
    fmt = format_of(entry.quantized_type)
    if fmt is not None:
        role = fmt.first_opset.quantize if entry.is_quantize else fmt.first_opset.dequantize
        yield str(fmt), role or FIRST_OPSET
    scale = kind(context.elem_type(entry.scale))
    yield f"a {scale} scale", FIRST_OPSET_OF_SCALE.get(scale, FIRST_OPSET)
    shape = entry.scale_shape
    if shape is not None and shape not in {(), (1,)}:
        blocks = len(shape) > 1
        yield ("block scales", FIRST_OPSET_WITH_BLOCKS) if blocks else (PER_AXIS, FIRST_OPSET_WITH_AXIS)
    known = FIRST_OPSET_OF_ATTRIBUTE[entry.standard_name]
    for attribute in entry.node.proto.attribute:
        yield f"attribute {attribute.name}", known.get(attribute.name, FIRST_OPSET)
