"""Read the kernels of an engine from the builder's layer dump (text) or from the engine inspector (JSON).

The text has a line for each kernel: ``Name: …, LayerType: …, Inputs: [ {…} ], Constants: [ {…} ], Outputs: [ {…} ],
TacticName: …, StreamId: …, Metadata: [ONNX Layer: …]…``. Names of the model are not escaped in
it. The reader therefore splits at the fixed words and never counts brackets. A line that does not fit is left out.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from qdqtool.builders.kernels import Kernel, KernelTensor

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
    "fp4": "float4e2m1",
    "fp4e2m1": "float4e2m1",
    "e8m0": "float8e8m0",
    "int4": "int4",
    "int8": "int8",
    "uint8": "uint8",
    "int32": "int32",
    "int64": "int64",
}
"""ONNX's name of a type by TensorRT's name in lower case. The dump writes Float and Half, parser messages FP32."""
_TENSOR_NAME = "{ Name: "
# The inspector of TensorRT 10 gives the type only inside words: "Thirty-two wide channel Int8", "Row major linear
# FP32 format".
_FORMAT_WORDS = re.compile(r"\b(INT8|FP8|INT4|FP4|FP16|BF16|FP32|INT32|INT64|BOOL|UINT8)\b", re.IGNORECASE)


def read_dump(text: str) -> tuple[Kernel, ...]:
    """Return the kernels in the builder's ``Layers:`` message, in order; empty for any other text."""
    body = text.split(_END, 1)[0]
    return tuple(_kernels(_RECORD_START.split(body)[1:]))


def read_inspector(text: str) -> tuple[Kernel, ...]:
    """Return the kernels in the JSON of the engine inspector of TensorRT 10 or 11; empty for anything else."""
    try:
        layers = json.loads(text)["Layers"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(_from_json(layer) for layer in layers if isinstance(layer, dict)) if isinstance(layers, list) else ()


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
            nodes=_nodes(metadata.rstrip(" ")),
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
        shape = tuple(_extent(int(dim)) for dim in tensor["dims"].split(",") if dim.strip("-"))
        yield KernelTensor(name, onnx_type(tensor["type"]), shape)
        end = tensor.end()


def _extent(dim: int) -> int | None:
    return dim if dim >= 0 else None


def _nodes(metadata: str) -> tuple[str, ...]:
    matches = (_NODE.match(part) for part in _SEPARATOR.split(metadata))
    return tuple(found["node"] for found in matches if found is not None)


def _from_json(layer: dict[str, Any]) -> Kernel:
    # TensorRT 10 lists the weight of a convolution apart, as {"Type": "Int8", "Count": 2304}; TensorRT 11 and RTX
    # list constants.
    weights = layer.get("Weights")
    kind = weights.get("Type") if isinstance(weights, dict) else None
    return Kernel(
        name=str(layer.get("Name", "")),
        layer_type=str(layer.get("LayerType", "")),
        inputs=_json_tensors(layer.get("Inputs")),
        constants=(
            *(tensor for tensor in _json_tensors(layer.get("Constants")) if tensor.shape is not None),
            *([KernelTensor("", onnx_type(str(kind)), None)] if kind is not None else []),
        ),
        outputs=_json_tensors(layer.get("Outputs")),
        tactic=str(layer.get("TacticName", "")),
        nodes=_nodes(str(layer.get("Metadata", ""))),
    )


def _json_tensors(tensors: Any) -> tuple[KernelTensor, ...]:
    entries = [entry for entry in tensors if isinstance(entry, dict)] if isinstance(tensors, list) else []
    return tuple(KernelTensor(str(entry.get("Name", "")), _json_type(entry), _json_shape(entry)) for entry in entries)


def _json_shape(entry: dict[str, Any]) -> tuple[int | None, ...] | None:
    dims = entry.get("Dimensions")
    if not isinstance(dims, list) or not all(isinstance(dim, int) for dim in dims):
        return None
    return tuple(_extent(dim) for dim in dims)


def _json_type(entry: dict[str, Any]) -> str:
    # TensorRT 11 splits the field "Format/Datatype" of TensorRT 10 in two.
    for key in ("Datatype", "DataType"):
        if key in entry:
            return onnx_type(str(entry[key]))
    found = _FORMAT_WORDS.search(str(entry.get("Format/Datatype", "")))
    return onnx_type(found[1]) if found else "unknown"
