"""The operators that TensorRT's parser adds to ONNX for quantization: their names, and the types of their outputs.

The parser ignores the domain; Model Optimizer writes the domain ``trt``. ONNX Runtime does not know these operators,
and ONNX has no schemas for them. Therefore shape inference gets stand-ins: local functions whose outputs have the same
types and shapes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, parser

from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.scope import all_nodes, walk

DOMAIN = "qdqtool.stand_in"
_OPSET = 21
_WHOLE = 2**31 - 1
"""As the step of a Slice, this number leaves one element; as the end, it is beyond every extent.

When onnx 1.23.2 propagates the numbers of a vector, it counts in 32 bits: a step of 2^32 becomes 0 and fills the
memory.
"""


@dataclass(frozen=True, slots=True)
class Linear:
    """A Q or DQ with the type in its operator name; its inputs and attributes are those of ONNX's Q and DQ.

    Attributes:
        is_quantize: Whether it is a Q.
        quantized_type: ``TensorProto.DataType`` of the quantized side, unless the zero point has another type.
    """

    is_quantize: bool
    quantized_type: int


LINEAR: Mapping[str, Linear] = {
    "TRT_FP8QuantizeLinear": Linear(True, TensorProto.FLOAT8E4M3FN),
    "TRT_FP8DequantizeLinear": Linear(False, TensorProto.FLOAT8E4M3FN),
    "TRT_INT4QuantizeLinear": Linear(True, TensorProto.INT4),
    "TRT_INT4DequantizeLinear": Linear(False, TensorProto.INT4),
}

MX_QUANTIZE, MX_DEQUANTIZE = "TRT_MXFP8QuantizeLinear", "TRT_MXFP8DequantizeLinear"
MX_DYNAMIC, FP4_DYNAMIC, DYNAMIC = "TRT_MXFP8DynamicQuantize", "TRT_FP4DynamicQuantize", "TRT_DynamicQuantize"
BLOCK_QUANTIZE, BLOCK_DEQUANTIZE = "TRT_BlockQuantize", "TRT_BlockDequantize"
PLACEHOLDERS = frozenset({"TRT_FP4QDQ", "TRT_INT8QuantizeLinear", "TRT_INT8DequantizeLinear"})
"""Names that look like operators of the parser but are not. Model Optimizer's exports from PyTorch contain the first
one for NVFP4, and its own functions replace it later."""

MAKES_SCALES = frozenset({MX_DYNAMIC, FP4_DYNAMIC, DYNAMIC})
"""Operators that compute scales from the data and return them together with the codes."""

ZERO_POINT = 2
"""The index of the zero-point input of a Q or DQ."""

IN_BLOCKS = frozenset({MX_QUANTIZE, MX_DEQUANTIZE, BLOCK_QUANTIZE, BLOCK_DEQUANTIZE}) | MAKES_SCALES
"""Operators that quantize or dequantize in blocks, with another meaning than ONNX's Q and DQ."""

MX_BLOCK, FP4_BLOCK = 32, 16
"""The only block sizes that the parser accepts for dynamic quantization."""


Attributes = Mapping[str, Any]
Body = Callable[[onnx.NodeProto], Iterator[str]]
"""Yields the nodes of a stand-in function: the first node makes the codes or values, the others make the scales."""


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node that have values, not references to parameters of a function."""
    given = (each for each in node.attribute if not each.ref_attr_name)
    return {each.name: onnx.helper.get_attribute_value(each) for each in given}


def with_stand_ins(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which stand-ins replace TensorRT operators; without such operators, the same model."""
    if not any(node.op_type in _BODIES for node in all_nodes(proto)):
        return proto
    copy = copy_model(proto)
    functions: dict[str, onnx.FunctionProto] = {}
    for _, container in walk(copy):
        ours = [node for node in container.node if node.op_type in _BODIES and node.output]
        _forget_declarations(container, {name for node in ours for name in node.output})
        for node in ours:
            _replace(node, functions)
        if isinstance(container, onnx.FunctionProto):
            container.opset_import.add(domain=DOMAIN, version=1)
    copy.opset_import.add(domain=DOMAIN, version=1)
    copy.functions.extend(functions.values())
    return copy


def _forget_declarations(container: onnx.GraphProto | onnx.FunctionProto, made: set[str]) -> None:
    """Remove the declared types of the outputs of these operators, and of codes that other nodes move afterwards."""
    # Model Optimizer declares fp8 codes as uint8, but the parser makes fp8.
    moved = set(made)
    for node in container.node:
        if node.input and node.input[0] in moved and "Dequantize" not in node.op_type:
            moved.update(node.output)
    kept = [
        info
        for info in container.value_info
        if info.name not in made and not (info.name in moved and info.type.tensor_type.elem_type == TensorProto.UINT8)
    ]
    del container.value_info[:]
    container.value_info.extend(kept)


def _replace(node: onnx.NodeProto, functions: dict[str, onnx.FunctionProto]) -> None:
    """Turn a node into a call of its stand-in function; ``functions`` has the functions made so far, by body."""
    first, *rest = _BODIES[node.op_type](node)
    # onnx infers nothing at all if a call has fewer outputs than its function.
    lines = [first, *rest] if len(node.output) > 1 else [first]
    body = "\n".join(lines)
    if body not in functions:
        header = f'<domain: "{DOMAIN}", opset_import: ["": {_OPSET}]>'
        outputs = "q, b" if len(lines) > 1 else "q"
        text = f"{header} f{len(functions)} (x, s, z) => ({outputs}) {{ {body} }}"
        functions[body] = parser.parse_function(text)
    node.domain, node.op_type = DOMAIN, functions[body].name
    node.ClearField("attribute")


def _integer(given: Attributes, name: str, default: int) -> int:
    """Return an attribute as the parser reads it: an attribute of another type counts as 0."""
    value = given.get(name, default)
    return value if isinstance(value, int) else 0


def _type(given: Attributes, name: str, default: int) -> int:
    """Return a type attribute, or the default if the attribute is 0 or no type."""
    value = _integer(given, name, default)
    return value if value in _TYPES else default


def _step(value: object, default: int = _WHOLE) -> int:
    return value if isinstance(value, int) and 0 < value < _WHOLE else default


def _cast(to: int) -> str:
    return f"q = Cast <to = {to}> (x)"


def _quantize(default: int) -> Body:
    """Return the body of a Q. If it has a zero point, its codes have the type of the zero point, as in the parser."""

    def body(node: onnx.NodeProto) -> Iterator[str]:
        has_zero_point = len(node.input) > ZERO_POINT and node.input[ZERO_POINT]
        yield "q = CastLike (x, z)" if has_zero_point else _cast(_type(attributes_of(node), "output_dtype", default))

    return body


def _dequantize(default: int = TensorProto.UNDEFINED) -> Body:
    """Return the body of a DQ. Its result has the type of the scale if neither attribute nor operator sets a type."""

    def body(node: onnx.NodeProto) -> Iterator[str]:
        to = _type(attributes_of(node), "output_dtype", default)
        yield _cast(to) if to else "q = CastLike (x, s)"

    return body


def _in_blocks(quantized: int, scale: int, block: int, axis: int) -> Body:
    def body(node: onnx.NodeProto) -> Iterator[str]:
        given = attributes_of(node)
        yield _cast(quantized)
        yield from _scales([_integer(given, "axis", axis)], [_step(given.get("block_size"), block)], scale)

    return body


def _dynamic(node: onnx.NodeProto) -> Iterator[str]:
    given = attributes_of(node)
    yield _cast(_type(given, "output_type", TensorProto.FLOAT))
    shape = given.get("block_shape")
    if isinstance(shape, list):
        # An axis that is not sliced keeps the name of its symbolic extent.
        steps = {axis: _step(each) for axis, each in enumerate(shape) if each != 1}
        yield from _scales([*steps], [*steps.values()], _type(given, "scale_type", TensorProto.FLOAT))


def _scales(axes: Sequence[int], steps: Sequence[int], scale_type: int) -> Iterator[str]:
    """Yield nodes that make a tensor with one element for each block."""
    lists = {"starts": [0] * len(axes), "ends": [_WHOLE] * len(axes), "axes": axes, "steps": steps}
    for name, values in lists.items():
        yield f"{name} = Constant <value_ints: ints = [{', '.join(map(str, values))}]> ()"
    yield "first = Slice (x, starts, ends, axes, steps)" if axes else "first = Identity (x)"
    yield f"b = Cast <to = {scale_type}> (first)"


_TYPES = frozenset(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}

_BODIES: Mapping[str, Body] = {
    **{name: _quantize(each.quantized_type) for name, each in LINEAR.items() if each.is_quantize},
    **{name: _dequantize() for name, each in LINEAR.items() if not each.is_quantize},
    MX_QUANTIZE: _quantize(TensorProto.FLOAT8E4M3FN),
    MX_DEQUANTIZE: _dequantize(TensorProto.FLOAT),
    MX_DYNAMIC: _in_blocks(TensorProto.FLOAT8E4M3FN, TensorProto.UINT8, MX_BLOCK, -1),
    FP4_DYNAMIC: _in_blocks(TensorProto.FLOAT4E2M1, TensorProto.FLOAT8E4M3FN, FP4_BLOCK, 1),
    DYNAMIC: _dynamic,
    BLOCK_QUANTIZE: _quantize(TensorProto.FLOAT8E4M3FN),
    BLOCK_DEQUANTIZE: _dequantize(),
}
"""Every quantization operator of the parser that ONNX lacks, measured with TensorRT for RTX."""
