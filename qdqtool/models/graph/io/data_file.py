"""Write the external data of a model tensor by tensor; all cores compute the next parts meanwhile."""

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO, Self

import onnx
from onnx import TensorProto

from qdqtool.models.graph.io.tensors import (
    external_place,
    is_external,
    is_pending,
    iter_tensors,
    nbytes,
    payload_of,
    read_bytes,
)
from qdqtool.models.graph.model import Model
from qdqtool.numerics.cores import ahead, call, cores

EXTERNAL_MINIMUM = 1024
"""Smaller tensors (in bytes) stay in the model file: shape inference needs small constants without the data file."""

_PAGE = 4096
_CHUNK = 1 << 20
_SYNC = 1 << 26
"""Number of bytes after which written data is flushed to the disk, while more data is computed."""

Maker = Callable[[], bytes]


class DataWriter:
    """Writes a file sequentially and computes its SHA-256."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._syncer = ThreadPoolExecutor(1, "sync")
        self._synced: Future[None] | None = None
        self._since = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._syncer.shutdown(cancel_futures=True)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the written bytes, in hexadecimal."""
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._file.write(data)
        self._digest.update(data)
        self._since += len(data)
        if self._since >= _SYNC:
            self._since = 0
            self._sync()

    def _sync(self) -> None:
        # Absent on macOS and Windows. There, all data is flushed at the end.
        if not hasattr(os, "fdatasync") or (self._synced is not None and not self._synced.done()):
            return
        if self._synced is not None:
            self._synced.result()
        self._file.flush()
        self._synced = self._syncer.submit(os.fdatasync, self._file.fileno())


def write_data(model: Model, proto: onnx.ModelProto, writer: DataWriter, location: str) -> int:
    """Write the large tensors of a model, and make ``proto`` refer to them.

    Args:
        model: The model; external tensors are read from its folder, pending tensors are computed now.
        proto: A copy of the model's ``proto``; its tensors refer to the file afterwards.
        writer: Writes the data file.
        location: Name of the data file.

    Returns:
        The number of bytes that were written.
    """
    layout = _Layout(model, proto, location)
    for part in ahead(call, layout.parts(), 2 * cores(), one_core=True):
        writer.write(part)
    return layout.end


class _Layout:
    """The positions of tensors in a data file."""

    def __init__(self, model: Model, proto: onnx.ModelProto, location: str) -> None:
        self._model = model
        self._proto = proto
        self._location = location
        self.end = 0

    def parts(self) -> Iterator[Maker]:
        """Yield functions that return the next bytes of the file, and make each tensor refer to its bytes."""
        for tensor in iter_tensors(self._proto):
            size = nbytes(tensor)
            if tensor.data_type == TensorProto.STRING or (size < EXTERNAL_MINIMUM and not stays_external(tensor)):
                if is_pending(tensor):
                    set_inline(tensor, read_bytes(self._model, tensor))
                continue
            offset = aligned(self.end, size)
            makers = _makers(self._model, tensor, size)
            set_external(tensor, self._location, offset, size)
            yield partial(bytes, offset - self.end)
            yield from makers
            self.end = offset + size


def _makers(model: Model, tensor: TensorProto, size: int) -> Iterator[Maker]:
    """Return functions that return the bytes of a tensor, even if ``tensor`` changes later."""
    if stays_external(tensor):
        path, offset = external_place(model.folder, tensor)
        edges = range(offset, offset + size, _CHUNK)
        return (partial(_read, path, start, min(_CHUNK, offset + size - start)) for start in edges)
    if is_pending(tensor):
        payload = payload_of(model, tensor)
        return iter([payload.make] if payload.parts is None else payload.parts())
    return iter([partial(bytes, read_bytes(model, tensor))])


def _read(path: Path, offset: int, size: int) -> bytes:
    with path.open("rb") as source:
        source.seek(offset)
        data = source.read(size)
    if len(data) < size:
        raise OSError(errno.EIO, "external data ended early", str(path))
    return data


def stays_external(tensor: TensorProto) -> bool:
    """Return whether the bytes of a tensor are in a data file of the model that was read."""
    return is_external(tensor) and not is_pending(tensor)


def aligned(end: int, size: int) -> int:
    """Return the aligned offset for a tensor of ``size`` bytes after data that ends at ``end``.

    Large tensors are page-aligned, so that runtimes can memory-map them.
    """
    step = _PAGE if size >= _PAGE else 64
    return -(-end // step) * step


def set_inline(tensor: TensorProto, data: bytes) -> None:
    """Store raw data in a tensor that was external or pending."""
    del tensor.external_data[:]
    tensor.ClearField("data_location")
    tensor.raw_data = data


def set_external(tensor: TensorProto, location: str, offset: int, length: int) -> None:
    """Make a tensor refer to data in a file next to the model."""
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    del tensor.external_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)


def set_location(tensor: TensorProto, location: str) -> None:
    """Change the name of the file that an external tensor refers to."""
    next(entry for entry in tensor.external_data if entry.key == "location").value = location
