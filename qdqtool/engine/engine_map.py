"""The map of an engine: its kernels in order, the tensors of each, and the conversions between floats and codes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from qdqtool.builders.builder import Evidence
from qdqtool.builders.kernels import Kernel, KernelTensor
from qdqtool.engine.conversions import Conversions


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedKernel:
    """One kernel of an engine.

    Attributes:
        name: The builder's name for it.
        layer_type: The builder's class of kernels: ``correlation``, ``gemm``, ``kgen``, ….
        generated: Whether the builder made it for this model; the GPU chooses any other at first use.
        nodes: The ONNX nodes that it came from, as the parser spells them.
        inputs: The tensors that it reads.
        constants: The constants that it reads.
        outputs: The tensors that it writes.
        bytes: Bytes of all these by type, without padding; None where the size of one is not known.
    """

    name: str
    layer_type: str
    generated: bool
    nodes: tuple[str, ...]
    inputs: tuple[KernelTensor, ...]
    constants: tuple[KernelTensor, ...]
    outputs: tuple[KernelTensor, ...]
    bytes: dict[str, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMap:
    """What the manifest of an engine says of its kernels.

    Attributes:
        manifest: The manifest file.
        engine: Name of the engine file.
        bytes: Its size.
        model: Name of the model file that it was built from.
        model_sha256: Its sha256, without external data.
        backend: Public id of the builder.
        version: Its version.
        targets: Compute capabilities that the engine is for; empty for the GPU of the machine that built it.
        evidence: Where the kernels come from.
        planned: Number of quantized nodes by the type that their Q/DQ ask for.
        achieved: How many of these nodes run in that type.
        kernels: The kernels in the order in which they run; empty without evidence.
        conversions: The conversions between floats and codes; None where the evidence cannot prove any.
    """

    manifest: str
    engine: str
    bytes: int
    model: str
    model_sha256: str
    backend: str
    version: str
    targets: tuple[str, ...]
    evidence: Evidence
    planned: dict[str, int]
    achieved: dict[str, int]
    kernels: tuple[MappedKernel, ...]
    conversions: Conversions | None


def map_kernels(kernels: Sequence[Kernel]) -> tuple[MappedKernel, ...]:
    """Return the kernels of a dump with the bytes that each reads and writes."""
    return tuple(_map(kernel) for kernel in kernels)


def _map(kernel: Kernel) -> MappedKernel:
    return MappedKernel(
        name=kernel.name,
        layer_type=kernel.layer_type,
        generated=kernel.is_generated,
        nodes=kernel.nodes,
        inputs=kernel.inputs,
        constants=kernel.constants,
        outputs=kernel.outputs,
        bytes=_bytes_by_type((*kernel.inputs, *kernel.constants, *kernel.outputs)),
    )


def _bytes_by_type(tensors: Sequence[KernelTensor]) -> dict[str, int] | None:
    total: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.bytes is None:
            return None
        total[tensor.type] += tensor.bytes
    return dict(sorted(total.items()))
