"""The kernels of an engine in its layer dump, and the tensors that they read and write."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

LAYERS_VERSION = 1

FLOATS = frozenset({"float32", "float16", "bfloat16"})
UNKNOWN = "unknown"
"""The type of a tensor if the builder does not give it."""
_NEVER_CODES = FLOATS | {"float64", "bool", "int32", "int64", UNKNOWN}
_BITS = {
    **dict.fromkeys(("float4e2m1", "int4"), 4),
    **dict.fromkeys(("float8e4m3fn", "float8e8m0", "int8", "uint8", "bool"), 8),
    **dict.fromkeys(("float16", "bfloat16"), 16),
    **dict.fromkeys(("float32", "int32"), 32),
    "int64": 64,
}
# TensorRT for RTX ends the tactic of a generated kernel with a hash. For other kernels it prints __myelin_CASK_STUB:
# the GPU chooses the kernel at first use.
_GENERATED = re.compile(r"_0x[0-9a-f]{32}$")


def is_quantized(kind: str) -> bool:
    """Whether a type holds codes; bool masks and indices, which fused kernels read too, are not codes."""
    return kind not in _NEVER_CODES


@dataclass(frozen=True, slots=True)
class KernelTensor:
    """One tensor that a kernel reads or writes.

    Attributes:
        name: The builder's name for it; graph inputs and outputs keep their names in the model.
        type: Its type, named as ONNX names it.
        shape: Its extents, with None for a dynamic extent; None if the builder does not give the shape.
    """

    name: str
    type: str
    shape: tuple[int | None, ...] | None

    @property
    def bytes(self) -> int | None:
        """Size in bytes without padding; None if an extent or the type is unknown."""
        bits = _BITS.get(self.type)
        if bits is None or self.shape is None:
            return None
        extents = [extent for extent in self.shape if extent is not None]
        return (math.prod(extents) * bits + 7) // 8 if len(extents) == len(self.shape) else None

    @property
    def is_operand(self) -> bool:
        """Whether a constant with this type and shape is multiplied as a weight.

        A float constant with fewer than two extents above 1 is a scale, a bias, or the alpha and beta of a gemm:
        measured [1], [1,16,1,1] and [1,32].
        """
        if self.shape is None:
            return True
        return len(self.shape) >= 2 and (self.type not in FLOATS or sum(dim != 1 for dim in self.shape) >= 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel of an engine, from the layer dump.

    Attributes:
        name: The builder's name for it.
        layer_type: The builder's class of kernels: ``correlation``, ``gemm``, ``runtime_fusion``, ``kgen``, ….
        inputs: The tensors that it reads.
        constants: The constants that it reads: weights, scales, biases and factors.
        outputs: The tensors that it writes.
        tactic: The builder's name for the implementation, if it gives one.
        nodes: The ONNX nodes that the kernel computes, each with its call path, in the parser's spelling.
    """

    name: str
    layer_type: str
    inputs: tuple[KernelTensor, ...] = ()
    constants: tuple[KernelTensor, ...] = ()
    outputs: tuple[KernelTensor, ...] = ()
    tactic: str = ""
    nodes: tuple[str, ...] = ()

    @property
    def input_types(self) -> tuple[str, ...]:
        """Types of the tensors that it reads."""
        return tuple(tensor.type for tensor in self.inputs)

    @property
    def weight_types(self) -> tuple[str, ...]:
        """Types of the constants that it multiplies; scales, biases and factors are left out."""
        return tuple(tensor.type for tensor in self.constants if tensor.is_operand)

    @property
    def output_types(self) -> tuple[str, ...]:
        """Types of the tensors that it writes."""
        return tuple(tensor.type for tensor in self.outputs)

    @property
    def is_generated(self) -> bool:
        """Whether the builder made it for this model. Other kernels are stubs: the GPU chooses them at first use."""
        return _GENERATED.search(self.tactic) is not None


class LayerTensor(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A tensor of a layer.

    Attributes:
        datatype: Its type; ``unknown`` if the builder does not give it.
    """

    datatype: str


class Layer(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A kernel with the key names of the builder's own layer information.

    Attributes:
        name: Its name.
        layer_type: The kind of layer, in the builder's words.
        inputs: The activations that it reads.
        constants: The weights that it reads.
        outputs: The tensors that it writes.
        tactic_name: The implementation that the builder chose; may be empty.
        metadata: Names of the ONNX nodes that it computes.
    """

    name: str
    layer_type: str
    inputs: tuple[LayerTensor, ...]
    constants: tuple[LayerTensor, ...]
    outputs: tuple[LayerTensor, ...]
    tactic_name: str
    metadata: tuple[str, ...]


class LayersFile(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """The content of the file of ``--export-layer-info``.

    Attributes:
        schema_version: Always 1 today.
        layers: The kernels in the order in which they run.
        dump: The builder's own text, unchanged.
    """

    schema_version: int = msgspec.field(name="schema_version")
    layers: tuple[Layer, ...]
    dump: str


def encode_layers(kernels: Iterable[Kernel], dump: str) -> bytes:
    """Encode kernels for the file of ``--export-layer-info``."""
    document = LayersFile(schema_version=LAYERS_VERSION, layers=tuple(map(_layer, kernels)), dump=dump)
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def _layer(kernel: Kernel) -> Layer:
    return Layer(
        name=kernel.name,
        layer_type=kernel.layer_type,
        inputs=_layer_tensors(kernel.input_types),
        constants=_layer_tensors(kernel.weight_types),
        outputs=_layer_tensors(kernel.output_types),
        tactic_name=kernel.tactic,
        metadata=tuple(kernel.nodes),
    )


def _layer_tensors(types: Iterable[str]) -> tuple[LayerTensor, ...]:
    return tuple(LayerTensor(datatype=kind) for kind in types)
