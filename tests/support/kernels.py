"""Kernels for tests that care for the types of tensors only."""

from collections.abc import Sequence

from qdqtool.engines.tensorrt.kernels import Kernel, KernelTensor


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
