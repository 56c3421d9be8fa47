"""Read the kernels of an engine from the JSON that TensorRT's engine inspector prints for detailed profiling.

The classes below are the schema of the JSON, from these sources:

* TensorRT's documentation, "Engine Inspector" (Inference Library, Engine Tools): a layer with ``Inputs``, ``Outputs``,
  ``Weights`` and ``TacticName``. Without detailed profiling a layer is only a name.
* TensorRT's documentation, "Migrating IEngineInspector Usage from TensorRT 10.x to 11.x": ``Bindings`` became ``I/O
  Tensors``, and ``Format/Datatype`` became two fields.
* github.com/NVIDIA/TensorRT, ``tools/experimental/trt-engine-explorer``: ``trex/layer.py`` reads ``Name``,
  ``LayerType``, ``Inputs`` and ``Outputs`` of every layer; ``tests/inputs/*.graph.json`` come from real engines.
* github.com/NVIDIA/trt-samples-for-hackathon-cn, the TensorRT Cookbook: a tensor of a layer has ``Dimensions``, and
  either ``Format/Datatype`` or ``Datatype``.

Other keys are ignored: each kind of layer has parameters of its own.

The ahead-of-time dump of TensorRT for RTX has a line for each kernel: ``Name: …, LayerType: …, Inputs: [ {…} ],
Constants: [ {…} ], Outputs: [ {…} ], TacticName: …, StreamId: …, Metadata: [ONNX Layer: …]…``. Names of the model are
not escaped in the dump. The reader therefore splits at the fixed words and never counts brackets. A line that does not
fit is left out.
"""

import re
from collections.abc import Iterator, Mapping

import msgspec

from qdqtool.engines.tensorrt.kernels import UNKNOWN, Kernel, KernelTensor

# The lookahead distinguishes a record from a line of a node name that happens to begin with "Name: ".
_RECORD_START = re.compile(r"^Name: (?=.*, LayerType: )", re.MULTILINE)
# Some records have more fields between these, such as JumpTargetThen of a branch; such a field becomes part of the
# field before it.
_FIELDS = (", LayerType: ", ", Inputs: ", ", Outputs: ", ", TacticName: ", ", StreamId: ", ", Metadata: ")
_CONSTANTS = ", Constants: "
# RTX writes Strides and StrideOrder between Dimensions and Datatype. The bounded repetition keeps the time linear in
# the length of the text, also for hostile names.
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
    **{name: name for name in ("int4", "int8", "uint8", "int32", "int64", "bool")},
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
        # The text between two tensors is the format of the first and the name of the second.
        name = text[end : tensor.start()].partition(_TENSOR_NAME)[2].removesuffix(", ")
        shape = tuple(extent(int(dim)) for dim in tensor["dims"].split(",") if dim.strip("-"))
        yield KernelTensor(name, onnx_type(tensor["type"]), shape)
        end = tensor.end()


def extent(dim: int) -> int | None:
    """Return an extent, or None for a dynamic extent, which TensorRT writes as -1."""
    return dim if dim >= 0 else None


def named_nodes(metadata: str) -> tuple[str, ...]:
    """Return the ONNX nodes in the metadata of a kernel, each with its call path."""
    matches = (_NODE.match(part) for part in _SEPARATOR.split(metadata))
    return tuple(found["node"] for found in matches if found is not None)


# TensorRT 10 gives the type only as a word in the format: "Thirty-two wide channel vectorized row major Int8
# format", "Row major linear FP32", "Half", "Half(64,1:8)". For dynamic shapes it is "N/A due to dynamic shapes".
_TYPE_WORD = re.compile(rf"\b({'|'.join(TRT_TYPES)})\b", re.IGNORECASE)


class UnknownShapeError(ValueError):
    """The text has a form that no known release of the inspector prints; the message says where it differs."""


class _Tensor(msgspec.Struct, frozen=True, kw_only=True):
    name: str = msgspec.field(name="Name")
    dimensions: tuple[int, ...] = msgspec.field(name="Dimensions")
    """Extents; -1 for a dynamic extent."""
    format_and_type: str | None = msgspec.field(name="Format/Datatype", default=None)
    """TensorRT 10: the format in words, including the type."""
    type_of_layer: str | None = msgspec.field(name="Datatype", default=None)
    """TensorRT 11: the type."""
    type_of_engine: str | None = msgspec.field(name="DataType", default=None)
    """TensorRT 11: the key for inputs and outputs of the engine, according to the migration page."""

    def __post_init__(self) -> None:
        if not (self.type_of_layer or self.type_of_engine or self.format_and_type):
            raise ValueError("Object missing its type: `Format/Datatype`, `Datatype` or `DataType`")

    def read(self) -> KernelTensor:
        """Return the tensor with ONNX's name of its type, or ``unknown``."""
        stated = self.type_of_layer or self.type_of_engine
        if stated is None:
            found = _TYPE_WORD.search(self.format_and_type or "")
            stated = found[1] if found else UNKNOWN
        return KernelTensor(self.name, onnx_type(stated), tuple(map(extent, self.dimensions)))


class _LayerWeights(msgspec.Struct, frozen=True, kw_only=True):
    type: str = msgspec.field(name="Type")
    count: int = msgspec.field(name="Count")


class _Layer(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of an engine: a kernel, or a step without a kernel."""

    name: str = msgspec.field(name="Name")
    layer_type: str = msgspec.field(name="LayerType")
    inputs: tuple[_Tensor, ...] = msgspec.field(name="Inputs")
    outputs: tuple[_Tensor, ...] = msgspec.field(name="Outputs")
    constants: tuple[_Tensor, ...] = msgspec.field(name="Constants", default=())
    weights: _LayerWeights | None = msgspec.field(name="Weights", default=None)
    tactic: str = msgspec.field(name="TacticName", default="")
    metadata: str = msgspec.field(name="Metadata", default="")

    def read(self) -> Kernel:
        """Return the kernel; a weight that is listed separately has no name and no shape."""
        apart = () if self.weights is None else (KernelTensor("", onnx_type(self.weights.type), None),)
        return Kernel(
            name=self.name,
            layer_type=self.layer_type,
            inputs=tuple(tensor.read() for tensor in self.inputs),
            constants=(*(tensor.read() for tensor in self.constants), *apart),
            outputs=tuple(tensor.read() for tensor in self.outputs),
            tactic=self.tactic,
            nodes=named_nodes(self.metadata),
        )


class _Engine(msgspec.Struct, frozen=True, kw_only=True):
    """The result of ``get_engine_information``."""

    layers: tuple[_Layer | str, ...] = msgspec.field(name="Layers")


def read_layers(text: str) -> tuple[Kernel, ...]:
    """Return the layers in the JSON of the engine inspector of TensorRT 8, 10 or 11, in order.

    A layer that is only a name, as engines without detailed profiling have them, has no layer type and no tensors.

    Raises:
        UnknownShapeError: The text is not JSON, or a key is absent or has another type.
    """
    return tuple(
        layer.read() if isinstance(layer, _Layer) else Kernel(name=layer, layer_type="") for layer in _decode(text)
    )


def read_inspector(text: str) -> tuple[Kernel, ...]:
    """Return the kernels in the JSON of the engine inspector of TensorRT 10 or 11, in order.

    Raises:
        UnknownShapeError: The text is not JSON, a key is absent or has another type, or layers are only names.
    """
    layers = _decode(text)
    detailed = [layer for layer in layers if isinstance(layer, _Layer)]
    if len(detailed) < len(layers):
        raise UnknownShapeError(f"{len(layers) - len(detailed)} of {len(layers)} layers are names without details")
    return tuple(layer.read() for layer in detailed)


def _decode(text: str) -> tuple[_Layer | str, ...]:
    try:
        return msgspec.json.decode(text, type=_Engine).layers
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UnknownShapeError(str(error)) from None
