"""The operators that TensorRT's parser adds to ONNX for quantization: their names, and the types of what they make.

The parser looks at the name alone; Model Optimizer writes them in the domain ``trt``. ONNX Runtime knows none of them,
and ONNX has no schemas, so shape inference gets stand-ins: local functions that make tensors of the same type and
shape.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import TensorProto, parser

from qdqtool.graph.scope import walk

DOMAIN = "qdqtool.stand_in"
_OPSET = 21
_ALL = 2**62
"""A step of Slice that leaves one element, and an end behind every extent."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A Q or DQ of a type that its name tells, with the inputs and attributes of ONNX's.

    Attributes:
        is_quantize: Whether it is a Q.
        quantized_type: ``TensorProto.DataType`` of the quantized side where no zero point has another.
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
MAKES_SCALES = frozenset({MX_DYNAMIC, FP4_DYNAMIC, DYNAMIC})
"""Operators that compute scales from the data and return them beside the codes."""

MX_BLOCK, FP4_BLOCK = 32, 16
"""The only block sizes that the parser takes for dynamic quantization."""


Integers = int | list[int]


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Return the attributes of a node that have values."""
    given = (each for each in node.attribute if not each.ref_attr_name)
    return {each.name: onnx.helper.get_attribute_value(each) for each in given}


def with_stand_ins(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model in which functions stand for these operators, node for node; the model itself if it has none."""
    if not any(node.op_type in _BODIES for _, container in walk(proto) for node in container.node):
        return proto
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    functions: dict[str, onnx.FunctionProto] = {}
    for _, container in walk(copy):
        ours = [node for node in container.node if node.op_type in _BODIES]
        # Model Optimizer declares the codes of fp8 as uint8, which is not what the parser makes.
        made = {name for node in ours for name in node.output}
        kept = [info for info in container.value_info if info.name not in made]
        del container.value_info[:]
        container.value_info.extend(kept)
        for node in ours:
            _stand_in(node, functions)
        if isinstance(container, onnx.FunctionProto):
            container.opset_import.add(domain=DOMAIN, version=1)
    copy.opset_import.add(domain=DOMAIN, version=1)
    copy.functions.extend(functions.values())
    return copy


def _stand_in(node: onnx.NodeProto, functions: dict[str, onnx.FunctionProto]) -> None:
    given = {name: value for name, value in attributes_of(node).items() if _is_integers(value)}
    lines = list(_BODIES[node.op_type](given))
    body = "\n".join(lines)
    name = next((name for name, each in functions.items() if each.doc_string == body), f"f{len(functions)}")
    if name not in functions:
        outputs = "q, b" if len(lines) > 1 else "q"
        text = f'<domain: "{DOMAIN}", opset_import: ["": {_OPSET}]> {name} (x, s, z) => ({outputs}) {{ {body} }}'
        functions[name] = parser.parse_function(text)
        functions[name].doc_string = body
    node.domain, node.op_type = DOMAIN, name
    node.ClearField("attribute")


def _is_integers(value: object) -> bool:
    return isinstance(value, int) or (isinstance(value, list) and all(isinstance(each, int) for each in value))


Given = Mapping[str, Integers]


def _cast(to: Integers) -> str:
    return f"q = Cast <to = {to}> (x)"


def _quantize(default: int) -> Callable[[Given], Iterator[str]]:
    def body(given: Given) -> Iterator[str]:
        yield _cast(given.get("output_dtype") or default)

    return body


def _dequantize(default: int = 0) -> Callable[[Given], Iterator[str]]:
    """Return the body of a DQ, whose result has the type of its scale where neither attribute nor operator tells."""

    def body(given: Given) -> Iterator[str]:
        to = given.get("output_dtype") or default
        yield _cast(to) if to else "q = CastLike (x, s)"

    return body


def _in_blocks(quantized: int, scale: int, block: int, axis: int) -> Callable[[Given], Iterator[str]]:
    def body(given: Given) -> Iterator[str]:
        yield _cast(quantized)
        yield from _scales([given.get("axis", axis)], [given.get("block_size") or block], scale)

    return body


def _dynamic(given: Given) -> Iterator[str]:
    shape = given.get("block_shape")
    steps = [step if step > 0 else _ALL for step in shape] if isinstance(shape, list) else []
    yield _cast(given.get("output_type") or TensorProto.FLOAT)
    if steps:
        yield from _scales(range(len(steps)), steps, given.get("scale_type") or TensorProto.FLOAT)


def _scales(axes: Sequence[Integers], steps: Sequence[Integers], scale_type: Integers) -> Iterator[str]:
    """Yield nodes that make a tensor with one element for each block."""
    lists = {"starts": [0] * len(axes), "ends": [_ALL] * len(axes), "axes": axes, "steps": steps}
    for name, values in lists.items():
        yield f"{name} = Constant <value_ints = [{', '.join(map(str, values))}]> ()"
    yield "first = Slice (x, starts, ends, axes, steps)"
    yield f"b = Cast <to = {scale_type}> (first)"


_BODIES: Mapping[str, Callable[[Given], Iterator[str]]] = {
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

NAMES = frozenset(_BODIES)
"""Every operator of the parser for quantization that ONNX does not have, measured with TensorRT for RTX 1.7.1."""
