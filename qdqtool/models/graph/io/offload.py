"""Move weights from memory to a temporary file during a job.

A job on a float model copies it several times and loads it in several sessions. Each time, inline weights would be
copied, serialized and parsed; offloaded weights are memory-mapped from one file. Measured on a ResNet-50 of 102 MB: a
session opens in 0.25 s instead of 0.9 s, with 150 MB instead of 360 MB.
"""

import contextlib
import errno
import gc
import itertools
import os
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Self

from onnx import TensorProto

from qdqtool.models.graph.io.copying import copy_fields, copy_model, has_unknown_fields
from qdqtool.models.graph.io.data_file import EXTERNAL_MINIMUM, aligned, set_external, set_inline
from qdqtool.models.graph.io.save import INLINE_LIMIT
from qdqtool.models.graph.io.tensors import (
    external_entry,
    external_place,
    is_external,
    is_pending,
    iter_tensors,
    nbytes,
    payload_of,
    read_bytes,
    set_pending,
)
from qdqtool.models.graph.model import Model
from qdqtool.models.payload import BytesPlace, Payload
from qdqtool.models.scratch import ScratchFolder
from qdqtool.numerics.cores import LARGE, side_by_side

LEAST_BYTES = 1 << 16
"""A tensor with fewer bytes stays in memory, because a separate file would cost more."""


class SpillFile:
    """Bytes of tensors in one temporary file. The file is deleted with the last payload that reads it.

    Args:
        size: Approximate number of bytes that will be written.

    Raises:
        OSError: The file cannot be created, or the free space is less than twice the size.
    """

    def __init__(self, size: int) -> None:
        self._folder = ScratchFolder()
        if 2 * size > shutil.disk_usage(self._folder.path).free:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        # Unbuffered, because payloads read the file while others are added.
        self._file = tempfile.NamedTemporaryFile(  # noqa: SIM115  closed by __exit__
            dir=self._folder.path, prefix="weights-", delete=False, buffering=0
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, data: bytes) -> Payload:
        """Write bytes, aligned for mapping, and return the payload that reads them."""
        place = BytesPlace(self._folder, Path(self._file.name).name, aligned(self._file.tell(), len(data)))
        self._file.write(bytes(place.offset - self._file.tell()))
        rest = memoryview(data)
        # Linux writes at most 2 GiB in one call.
        while rest:
            rest = rest[self._file.write(rest) :]
        size = len(data)
        return Payload(size, lambda: _read(place, size), place)


def offloaded_bytes(data: bytes) -> Payload:
    """Return a payload that reads these bytes from a separate file, or from memory if they are few or space is short.

    Use it for tensors that are computed one by one while a job runs.
    """
    if len(data) >= LEAST_BYTES:
        with contextlib.suppress(OSError), SpillFile(len(data)) as file:
            return file.add(data)
    return Payload(len(data), lambda: data)


def _read(place: BytesPlace, size: int) -> bytes:
    with place.file.open("rb") as file:
        file.seek(place.offset)
        return file.read(size)


def offloaded(model: Model) -> Model:
    """Return the same model with large initializers of its main graph in a temporary file, deleted with the model.

    Saving the result gives the same files. Tensors in such a file are not moved again. External data is not moved
    either: if a model has external data, only pending tensors move, because they would be computed again at each use.
    The same model is returned if there is nothing to move or no space for the file.
    """
    initializers = model.proto.graph.initializer
    outside = _has_external_data(model)
    moves = [_moves(model, tensor, outside=outside) for tensor in initializers]
    moving = list(itertools.compress(initializers, moves))
    if not moving:
        return model
    proto = copy_model(model.proto, {tensor.name for tensor in initializers})
    # If the model has unknown fields, copy_model copies everything.
    if proto.graph.initializer:
        return model
    result = Model(proto, model.path, {}, model.stored_outside, model.missing_data)
    size = sum(map(nbytes, moving))
    if size > LARGE:
        # Payloads refer to their models, which hold the payloads: the files stay until such cycles are collected.
        gc.collect()
    try:
        with SpillFile(size) as file:
            # Pending tensors are computed here; the bytes of a few small ones are in memory at the same time.
            made = side_by_side(partial(read_bytes, model), moving, lambda tensor: nbytes(tensor) > LARGE)
            for tensor, moved in zip(initializers, moves, strict=True):
                kept = _reference(result, tensor, file.add(next(made))) if moved else tensor
                proto.graph.initializer.append(kept)
    # The disk is full. The weights may still fit in memory.
    except OSError:
        return model
    # Payloads without a tensor would keep the files of earlier models.
    read = {external_entry(tensor, "key") for tensor in filter(is_pending, iter_tensors(proto))}
    older = {key: payload for key, payload in model.payloads.items() if key in read}
    result.payloads = {**older, **result.payloads}
    return result


def as_external_data(model: Model) -> tuple[Model, tuple[ScratchFolder, ...]] | None:
    """Make an offloaded model readable for a runtime: its large tensors become external data.

    Args:
        model: The model; it is not changed. Pending tensors that are not offloaded are computed.

    Returns:
        The model, in a folder that holds the files of offloaded tensors and its own external data. Also the temporary
        folders, each of which is deleted with its object. None if no tensor is offloaded, if the other tensors are too
        large for one file, or if no folder holds all files.
    """
    places = [payload.place for payload in model.payloads.values() if payload.place is not None]
    folders = tuple({place.folder.path: place.folder for place in places}.values())
    base = _common_folder(model, folders)
    if base is None:
        return None
    proto = copy_model(model.proto)
    inline = 0
    for tensor in filter(is_external, iter_tensors(proto)):
        place = payload_of(model, tensor).place if is_pending(tensor) else None
        if place is not None:
            set_external(tensor, _inside(base, place.file), place.offset, nbytes(tensor))
        elif is_pending(tensor):
            inline += nbytes(tensor)
            if inline > INLINE_LIMIT:
                return None
            set_inline(tensor, read_bytes(model, tensor))
        else:
            file, offset = external_place(model.folder, tensor)
            set_external(tensor, _inside(base, file), offset, nbytes(tensor))
    return Model(proto, base / "model.onnx"), folders


def _common_folder(model: Model, folders: tuple[ScratchFolder, ...]) -> Path | None:
    """Return the innermost folder that holds all offloaded tensors and external data, or None if there is none."""
    # ONNX Runtime 1.31.1 reads external data from a single folder and refuses links that leave it.
    if not folders:
        return None
    paths = [os.path.realpath(folder.path) for folder in folders]
    if _has_external_data(model):
        paths.append(os.path.realpath(model.folder))
    try:
        return Path(os.path.commonpath(paths))
    # The paths are on different drives of Windows.
    except ValueError:
        return None


def _inside(base: Path, file: Path) -> str:
    return Path(os.path.realpath(file)).relative_to(base).as_posix()


def _has_external_data(model: Model) -> bool:
    return model.stored_outside or any(is_external(t) and not is_pending(t) for t in iter_tensors(model.proto))


def _moves(model: Model, tensor: TensorProto, *, outside: bool) -> bool:
    """Return whether a tensor is large, can move without loss, and is still saved at the same place."""
    if is_pending(tensor):
        payload = payload_of(model, tensor)
        return payload.place is None and payload.nbytes >= EXTERNAL_MINIMUM
    if outside or not tensor.HasField("raw_data") or has_unknown_fields(tensor):
        return False
    # A tensor with missing bytes stays, so that the runtime refuses it: in the file, the next tensor would complete it.
    size = nbytes(tensor) if tensor.data_type != TensorProto.STRING else 0
    return size >= EXTERNAL_MINIMUM and len(tensor.raw_data) == size


def _reference(model: Model, tensor: TensorProto, payload: Payload) -> TensorProto:
    reference = TensorProto()
    copy_fields(tensor, reference, "raw_data")
    set_pending(model, reference, f"offloaded:{tensor.name}", payload)
    return reference
