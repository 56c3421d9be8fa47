"""Bytes of tensors that are not in memory: they are computed, or read from a temporary file, when they are needed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from qdqtool.models.scratch import ScratchFolder
from qdqtool.numerics.cores import ahead, call, cores

THREADED_BYTES = 1 << 16
"""Smaller payloads are computed by the calling thread, because starting other threads takes longer."""


@dataclass(frozen=True, slots=True)
class BytesPlace:
    """The location of the bytes of an offloaded tensor (:mod:`qdqtool.models.graph.io.offload`)."""

    folder: ScratchFolder
    location: str
    offset: int

    @property
    def file(self) -> Path:
        """The file."""
        return self.folder.path / self.location


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes of a tensor that are computed when they are needed and not kept.

    Attributes:
        nbytes: Number of bytes that :attr:`make` returns.
        make: Returns the raw data, packed and little-endian as ONNX stores it.
        place: The location from which the same bytes can be mapped; None if they must be computed.
        parts: Returns functions for consecutive parts of the same bytes, which several threads may call; None if the
            tensor is computed as a whole.
    """

    nbytes: int
    make: Callable[[], bytes]
    place: BytesPlace | None = None
    parts: Callable[[], Iterable[Callable[[], bytes]]] | None = None

    @classmethod
    def in_parts(cls, nbytes: int, parts: Callable[[], Iterable[Callable[[], bytes]]]) -> "Payload":
        """Return a payload that is computed in parts, on all cores if it is large enough for threads to help."""
        if nbytes < THREADED_BYTES:
            return cls(nbytes, lambda: b"".join(map(call, parts())), parts=parts)
        return cls(nbytes, lambda: b"".join(ahead(call, parts(), cores(), one_core=True)), parts=parts)
