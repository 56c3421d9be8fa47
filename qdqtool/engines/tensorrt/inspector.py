"""Read the kernels of an engine from the JSON that TensorRT's engine inspector prints for detailed profiling.

The classes below are its schema, as these sources have it:

* TensorRT's documentation, "Engine Inspector" (Inference Library, Engine Tools): a layer with ``Inputs``, ``Outputs``,
  ``Weights`` and ``TacticName``. Without detailed profiling a layer is its name alone.
* TensorRT's documentation, "Migrating IEngineInspector Usage from TensorRT 10.x to 11.x": ``Bindings`` became ``I/O
  Tensors``, and ``Format/Datatype`` became two fields.
* github.com/NVIDIA/TensorRT, ``tools/experimental/trt-engine-explorer``: ``trex/layer.py`` reads ``Name``,
  ``LayerType``, ``Inputs`` and ``Outputs`` of every layer; ``tests/inputs/*.graph.json`` come from real engines.
* github.com/NVIDIA/trt-samples-for-hackathon-cn, the TensorRT Cookbook: a tensor of a layer has ``Dimensions``, and
  either ``Format/Datatype`` or ``Datatype``.

Keys that are not listed are let pass: each kind of layer has parameters of its own.
"""

import re

import msgspec

from qdqtool.engines.tensorrt.kernels import UNKNOWN, Kernel, KernelTensor
from qdqtool.engines.tensorrt.layer_dump import TRT_TYPES, extent, named_nodes, onnx_type

# TensorRT 10 gives the type only among the words of the format: "Thirty-two wide channel vectorized row major Int8
# format", "Row major linear FP32", "Half", "Half(64,1:8)". For dynamic shapes it is "N/A due to dynamic shapes".
_TYPE_WORD = re.compile(rf"\b({'|'.join(TRT_TYPES)})\b", re.IGNORECASE)


class UnknownShapeError(ValueError):
    """The text is not what any release of the inspector is known to print; the message says where it differs."""


class _Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor that a layer reads or writes."""

    name: str = msgspec.field(name="Name")
    dimensions: tuple[int, ...] = msgspec.field(name="Dimensions")
    """Extents; -1 for a dynamic one."""
    format_and_type: str | None = msgspec.field(name="Format/Datatype", default=None)
    """TensorRT 10: words, of which one is the type."""
    type_of_layer: str | None = msgspec.field(name="Datatype", default=None)
    """TensorRT 11: the type."""
    type_of_engine: str | None = msgspec.field(name="DataType", default=None)
    """TensorRT 11, as the migration page spells it for inputs and outputs of the engine."""

    def __post_init__(self) -> None:
        if not (self.type_of_layer or self.type_of_engine or self.format_and_type):
            raise ValueError("Object missing its type: `Format/Datatype`, `Datatype` or `DataType`")

    def read(self) -> KernelTensor:
        """The tensor with ONNX's name of its type, or ``unknown``."""
        stated = self.type_of_layer or self.type_of_engine
        if stated is None:
            found = _TYPE_WORD.search(self.format_and_type or "")
            stated = found[1] if found else UNKNOWN
        return KernelTensor(self.name, onnx_type(stated), tuple(map(extent, self.dimensions)))


class _Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of a convolution."""

    type: str = msgspec.field(name="Type")
    count: int = msgspec.field(name="Count")


class _Layer(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel, or a step that needs none."""

    name: str = msgspec.field(name="Name")
    layer_type: str = msgspec.field(name="LayerType")
    inputs: tuple[_Tensor, ...] = msgspec.field(name="Inputs")
    outputs: tuple[_Tensor, ...] = msgspec.field(name="Outputs")
    constants: tuple[_Tensor, ...] = msgspec.field(name="Constants", default=())
    weights: _Weights | None = msgspec.field(name="Weights", default=None)
    tactic: str = msgspec.field(name="TacticName", default="")
    metadata: str = msgspec.field(name="Metadata", default="")

    def read(self) -> Kernel:
        """The kernel; a weight that is listed apart has no name and no shape."""
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
    """What ``get_engine_information`` returns."""

    layers: tuple[_Layer | str, ...] = msgspec.field(name="Layers")


def read_inspector(text: str) -> tuple[Kernel, ...]:
    """Return the kernels in the JSON of the engine inspector of TensorRT 10 or 11, in order.

    Raises:
        UnknownShapeError: The text is no JSON, a key is absent or of another type, or layers are names only.
    """
    try:
        layers = msgspec.json.decode(text, type=_Engine).layers
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UnknownShapeError(str(error)) from None
    detailed = [layer for layer in layers if isinstance(layer, _Layer)]
    if len(detailed) < len(layers):
        raise UnknownShapeError(f"{len(layers) - len(detailed)} of {len(layers)} layers are names without details")
    return tuple(layer.read() for layer in detailed)
