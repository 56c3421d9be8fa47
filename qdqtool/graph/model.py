"""A model in memory: its ModelProto without external weights, and the sources of tensor bytes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import onnx

from qdqtool.numerics.cores import ahead, call, cores
from qdqtool.scratch import ScratchFolder

PENDING_LOCATION = "qdqtool:pending"
"""``location`` of a tensor whose bytes are made when the model is saved; its ``key`` names the payload."""

THREADED_BYTES = 1 << 16
"""Smaller payloads are made by the thread that asks: starting and joining others takes longer than their codes."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of the bytes of a spilled tensor (:mod:`qdqtool.graph.io.spill`).

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
    place: Place | None = None
    parts: Callable[[], Iterable[Callable[[], bytes]]] | None = None

    @classmethod
    def in_parts(cls, nbytes: int, parts: Callable[[], Iterable[Callable[[], bytes]]]) -> "Payload":
        """A payload that is made in parts, on all cores if it is large enough to gain by threads."""
        if nbytes < THREADED_BYTES:
            return cls(nbytes, lambda: b"".join(map(call, parts())), parts=parts)
        return cls(nbytes, lambda: b"".join(ahead(call, parts(), cores(), one_core=True)), parts=parts)


@dataclass(slots=True)
class Model:
    """An ONNX model whose external data stays on disk.

    Attributes:
        proto: The model as read. External tensors keep their ``external_data`` entries; tensors that an edit made
            may have the location :data:`PENDING_LOCATION` and a ``key``.
        path: The file it was read from; None for models made in memory. External locations are relative to its folder.
        payloads: Bytes of pending tensors by key.
        stored_outside: Whether the file it was read from keeps weights in external data.
        missing_data: Locations of external data that is not there. Empty, except where a model is only looked at.
    """

    proto: onnx.ModelProto
    path: Path | None = None
    payloads: dict[str, Payload] = field(default_factory=dict)
    stored_outside: bool = False
    missing_data: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """The folder that external locations are relative to."""
        return self.path.parent if self.path is not None else Path.cwd()

    def fork(self) -> "Model":
        """The same model with payloads of its own, so that pending tensors can be added for one job only."""
        return Model(self.proto, self.path, dict(self.payloads), self.stored_outside, self.missing_data)

    def default_opset(self) -> int:
        """The imported version of the default ONNX domain; 1 when it is not imported."""
        return opset_version(self.proto, "")


def opset_version(proto: onnx.ModelProto | onnx.FunctionProto, domain: str) -> int:
    """The version of ``domain`` that a model or local function imports; 1 when it imports none."""
    wanted = {"", "ai.onnx"} if domain in {"", "ai.onnx"} else {domain}
    return next((entry.version for entry in proto.opset_import if entry.domain in wanted), 1)
