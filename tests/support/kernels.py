"""Kernels for tests that care for the types of tensors only."""

from collections.abc import Sequence

from qdqtool.engines.tensorrt.builder import Built
from qdqtool.engines.tensorrt.inspector import read_dump
from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor
from support.paths import ROOT

DUMPS = ROOT / "tests" / "engines" / "tensorrt" / "data"


def tensors(*kinds: str, name: str = "t") -> tuple[KernelTensor, ...]:
    """Matrices of these types."""
    return tuple(KernelTensor(f"{name}{number}", kind, (16, 16)) for number, kind in enumerate(kinds))


def typed_kernel(
    *,
    inputs: Sequence[str] = (),
    constants: Sequence[str] = (),
    outputs: Sequence[str] = (),
    nodes: tuple[str, ...] = (),
    **names: str,
) -> Kernel:
    """A kernel that reads and writes matrices of these types."""
    return Kernel(
        inputs=tensors(*inputs), constants=tensors(*constants), outputs=tensors(*outputs), nodes=nodes, **names
    )


def engine_of(*kernels: Kernel, evidence: str = "aot-dump", layer_dump: str = "") -> Built:
    """An engine with these kernels."""
    times = {"parse_seconds": 0, "build_seconds": 0}
    return Built(version="0", evidence=evidence, kernels=kernels, layer_dump=layer_dump, warnings=(), **times)


def dumped(name: str) -> str:
    """What TensorRT for RTX 1.7.1 printed for the model of that name in :mod:`support.engine_models`."""
    return (DUMPS / f"{name}.txt").read_text(encoding="utf-8")


def kernels_in(name: str) -> tuple[Kernel, ...]:
    """The kernels of that dump."""
    return read_dump(dumped(name))
