"""Reading what TensorRT says about the kernels of an engine: the text of the builder's log, or the inspector's JSON.

The text has a line for each kernel: ``Name: …, LayerType: …, Inputs: [ {…} ], Constants: [ {…} ], Outputs: [ {…} ],
TacticName: …, StreamId: …, Metadata: [ONNX Layer: …]…``. Names from the model stand in it unescaped, so it is taken
apart at its fixed words and never by counting brackets. A line that does not fit is left out, never an error.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from qdqtool.engine.builder import Kernel

_RECORD_START = re.compile(r"^Name: (?=.*, LayerType: )", re.MULTILINE)
_FIELDS = (", LayerType: ", ", Inputs: ", ", Outputs: ", ", TacticName: ", ", StreamId: ", ", Metadata: ")
_CONSTANTS = ", Constants: "
_TENSOR = re.compile(
    r"Dimensions: \[(?P<dims>[-\d,]*)\], (?:\w+: \[[-\d,]*\], ){0,4}Datatype: (?P<type>\w+),", re.ASCII
)
_NODE = re.compile("^\\[ONNX Layer: (?P<node>.*)\\]$", re.DOTALL)
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
"""TensorRT's names of types, in lower case, and ONNX's."""
_FLOATS = frozenset({"float32", "float16", "bfloat16"})
_FORMAT_WORDS = re.compile(r"\b(INT8|FP8|INT4|FP4|FP16|BF16|FP32|INT32|INT64|BOOL|UINT8)\b", re.IGNORECASE)


def read_dump(text: str) -> tuple[Kernel, ...]:
    """The kernels in the builder's ``Layers:`` message, in order; empty for a text that is none."""
    body = text.split(_END, 1)[0]
    return tuple(_kernels(_RECORD_START.split(body)[1:]))


def read_inspector(text: str) -> tuple[Kernel, ...]:
    """The kernels in the JSON of TensorRT's engine inspector, of 10.x and of 11.x; empty for anything else."""
    try:
        layers = json.loads(text)["Layers"]
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(_from_json(layer) for layer in layers if isinstance(layer, dict)) if isinstance(layers, list) else ()


def onnx_type(name: str) -> str:
    """TensorRT's name of a type as ONNX spells it: ``Half`` is ``float16``, ``FP8`` is ``float8e4m3fn``."""
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
            inputs=tuple(kind for kind, _ in _tensors(inputs)),
            constants=tuple(kind for kind, dims in _tensors(constants) if _is_operand(kind, dims)),
            outputs=tuple(kind for kind, _ in _tensors(outputs)),
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


def _tensors(text: str) -> Iterator[tuple[str, list[int]]]:
    for tensor in _TENSOR.finditer(text):
        dims = [int(dim) for dim in tensor["dims"].split(",") if dim.strip("-")]
        yield onnx_type(tensor["type"]), dims


def _is_operand(kind: str, dims: list[int]) -> bool:
    # floats that are no matrix are scales, biases and factors
    return len(dims) >= 2 and (kind not in _FLOATS or sum(dim != 1 for dim in dims) >= 2)


def _nodes(metadata: str) -> tuple[str, ...]:
    matches = (_NODE.match(part) for part in _SEPARATOR.split(metadata))
    return tuple(found["node"] for found in matches if found is not None)


def _from_json(layer: dict[str, Any]) -> Kernel:
    weights = layer.get("Weights")
    constants = [entry for entry in layer.get("Constants") or [] if len(entry.get("Dimensions") or []) >= 2]
    return Kernel(
        name=str(layer.get("Name", "")),
        layer_type=str(layer.get("LayerType", "")),
        inputs=_json_types(layer.get("Inputs")),
        constants=(
            *_json_types(constants),
            *([onnx_type(str(weights["Type"]))] if isinstance(weights, dict) and "Type" in weights else []),
        ),
        outputs=_json_types(layer.get("Outputs")),
        tactic=str(layer.get("TacticName", "")),
        nodes=_nodes(str(layer.get("Metadata", ""))),
    )


def _json_types(tensors: Any) -> tuple[str, ...]:
    entries = [entry for entry in tensors if isinstance(entry, dict)] if isinstance(tensors, list) else []
    return tuple(_json_type(entry) for entry in entries)


def _json_type(entry: dict[str, Any]) -> str:
    for key in ("Datatype", "DataType"):
        if key in entry:
            return onnx_type(str(entry[key]))
    found = _FORMAT_WORDS.search(str(entry.get("Format/Datatype", "")))
    return onnx_type(found[1]) if found else "unknown"
