"""Read the kernels of an engine from the layer dump that the builder of TensorRT for RTX prints.

It has a line for each kernel: ``Name: …, LayerType: …, Inputs: [ {…} ], Constants: [ {…} ], Outputs: [ {…} ],
TacticName: …, StreamId: …, Metadata: [ONNX Layer: …]…``. Names of the model are not escaped in
it. The reader therefore splits at the fixed words and never counts brackets. A line that does not fit is left out.
"""

import re
from collections.abc import Iterator, Mapping

from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor

# The lookahead keeps apart a record and a line of a node name that happens to begin with "Name: ".
_RECORD_START = re.compile(r"^Name: (?=.*, LayerType: )", re.MULTILINE)
# Some records have more fields between these, such as JumpTargetThen of a branch; they become part of the field
# before.
_FIELDS = (", LayerType: ", ", Inputs: ", ", Outputs: ", ", TacticName: ", ", StreamId: ", ", Metadata: ")
_CONSTANTS = ", Constants: "
# Strides and StrideOrder stand between Dimensions and Datatype in RTX 1.7.1. The bounded repetition keeps the time
# linear in the text, also for hostile names.
_TENSOR = re.compile(
    r"Dimensions: \[(?P<dims>[-\d,]*)\], (?:\w+: \[[-\d,]*\], ){0,4}Datatype: (?P<type>\w+),", re.ASCII
)
_NODE = re.compile("^\\[ONNX Layer: (?P<node>.*)\\]$", re.DOTALL)
# Between the ONNX nodes of one kernel: TensorRT writes 0x1e, TensorRT for RTX 0x1f.
_SEPARATOR = re.compile("[\x1e\x1f]")
_END = "\n\nI/O Tensors:"

TRT_TYPES: Mapping[str, str] = {
    "float": "float32",
    "fp32": "float32",
    "half": "float16",
    "fp16": "float16",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp8": "float8e4m3fn",
    "fp8_e4m3": "float8e4m3fn",
    "fp8e4m3": "float8e4m3fn",
    "fp4": "float4e2m1",
    "fp4e2m1": "float4e2m1",
    "e8m0": "float8e8m0",
    "int4": "int4",
    "int8": "int8",
    "uint8": "uint8",
    "int32": "int32",
    "int64": "int64",
    "bool": "bool",
}
"""ONNX's name of a type by TensorRT's name in lower case. The dump writes Float and Half, parser messages FP32."""
_TENSOR_NAME = "{ Name: "


def read_dump(text: str) -> tuple[Kernel, ...]:
    """Return the kernels in the builder's ``Layers:`` message, in order; empty for any other text."""
    body = text.split(_END, 1)[0]
    return tuple(_kernels(_RECORD_START.split(body)[1:]))


def onnx_type(name: str) -> str:
    """Return ONNX's name of a TensorRT type: ``Half`` is ``float16``, ``FP8`` is ``float8e4m3fn``."""
    return TRT_TYPES.get(name.lower(), name.lower())


def _kernels(records: list[str]) -> Iterator[Kernel]:
    for record in records:
        fields = _fields(record.rstrip("\n") + " ")
        if fields is None:
            continue
        name, layer_type, inputs, outputs, tactic, _, metadata = fields
        inputs, _, constants = inputs.partition(_CONSTANTS)
        yield Kernel(
            name=name,
            layer_type=layer_type,
            inputs=tuple(_tensors(inputs)),
            constants=tuple(_tensors(constants)),
            outputs=tuple(_tensors(outputs)),
            tactic=tactic,
            nodes=named_nodes(metadata.rstrip(" ")),
        )


def _fields(record: str) -> list[str] | None:
    found = []
    for mark in _FIELDS:
        text, present, record = record.partition(mark)
        if not present:
            return None
        found.append(text)
    return [*found, record]


def _tensors(text: str) -> Iterator[KernelTensor]:
    end = 0
    for tensor in _TENSOR.finditer(text):
        # What stands between two tensors is the format of the first and the name of the second.
        name = text[end : tensor.start()].partition(_TENSOR_NAME)[2].removesuffix(", ")
        shape = tuple(extent(int(dim)) for dim in tensor["dims"].split(",") if dim.strip("-"))
        yield KernelTensor(name, onnx_type(tensor["type"]), shape)
        end = tensor.end()


def extent(dim: int) -> int | None:
    """Return an extent; None for a dynamic one, which TensorRT writes as -1."""
    return dim if dim >= 0 else None


def named_nodes(metadata: str) -> tuple[str, ...]:
    """Return the ONNX nodes in the metadata of a kernel, each with its call path."""
    matches = (_NODE.match(part) for part in _SEPARATOR.split(metadata))
    return tuple(found["node"] for found in matches if found is not None)
