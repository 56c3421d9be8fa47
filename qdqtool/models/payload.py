"""Bytes of tensors that are not in memory: they are made, or read from a temporary file, when they are needed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from qdqtool.models.scratch import ScratchFolder
from qdqtool.numerics.cores import ahead, call, cores

THREADED_BYTES = 1 << 16
"""Smaller payloads are made by the thread that asks: starting and joining others takes longer than their codes."""


@dataclass(frozen=True, slots=True)
class BytesPlace:
    """The place of the bytes of a offloaded tensor (:mod:`qdqtool.models.graph.io.offload`).

    Attributes:
        folder: The folder.
        location: Name of the file in it.
        offset: Offset of the first byte.
    """

    folder: ScratchFolder
    location: str
    offset: int

    @property
    def file(self) -> Path:
        """The file."""
        return self.folder.path / self.location


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes of a tensor that are made when they are needed and not kept.

    Attributes:
        nbytes: Number of bytes that :attr:`make` returns.
        make: Makes the raw data, packed and little-endian as ONNX stores it.
        place: The place from which the same bytes can be mapped; None where they have to be made.
        parts: Returns makers of consecutive parts of the same bytes, which several threads may call; None where a
            tensor is made at once.
    """

    nbytes: int
    make: Callable[[], bytes]
    place: BytesPlace | None = None
    parts: Callable[[], Iterable[Callable[[], bytes]]] | None = None

    @classmethod
    def in_parts(cls, nbytes: int, parts: Callable[[], Iterable[Callable[[], bytes]]]) -> "Payload":
        """A payload that is made in parts, on all cores if it is large enough to gain by threads."""
        if nbytes < THREADED_BYTES:
            return cls(nbytes, lambda: b"".join(map(call, parts())), parts=parts)
        return cls(nbytes, lambda: b"".join(ahead(call, parts(), cores(), one_core=True)), parts=parts)
