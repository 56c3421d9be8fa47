"""Write a model completely or not at all: one weight at a time, with external data if the size requires it."""

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path

import onnx

from qdqtool.errors import UsageError
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.data_file import DataWriter, set_inline, stays_external, write_data
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.io.output import Staged, check_output, is_stream, output_errors, staged
from qdqtool.models.graph.io.tensors import is_external, iter_tensors, nbytes, read_bytes
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import DataFile, ModelFile
from qdqtool.models.options import ExternalData

INLINE_LIMIT = 2**31 - 2**26
"""A larger model gets external data, because protobuf is limited to 2 GiB (64 MiB of them are a reserve)."""


class TooLargeError(UsageError):
    """A model that must fit in one file or in memory is larger than 2 GiB."""


@dataclass(frozen=True, slots=True)
class SavedFiles:
    """The files that were written.

    Attributes:
        model: The ``.onnx`` file.
        data: The external data file, if there is one.
        bytes: Total size of both.
        file: Sizes and digests of both files; None for a stream.
    """

    model: Path
    data: Path | None
    bytes: int
    file: ModelFile | None = None


def save_model(model: Model, path: str | Path, *, external_data: ExternalData = ExternalData.AUTO) -> SavedFiles:
    """Write a model, which is not changed.

    The files are written by :mod:`qdqtool.models.graph.io.output`, data first. External data goes to ``<path>.data``;
    into a stream, a model is written as a whole. The bytes of unchanged tensors are copied without decoding.

    Args:
        model: The model; external tensors are read from its folder, pending tensors are computed now.
        path: The ``.onnx`` file to write. It must not be the file that the model was read from.
        external_data: Where weights are stored.
    """
    path = Path(path)
    sources = external_files(model.proto, model.folder) if model.path is not None else []
    check_output(path, [*([model.path] if model.path else []), *sources])
    offload = _needs_data_file(model, external_data, path)
    proto = copy_model(model.proto)
    data_path = path.with_name(path.name + ".data") if offload else None
    data: DataFile | None = None
    with output_errors(path), contextlib.ExitStack() as stack:
        ready = []
        if data_path is not None:
            check_output(data_path, sources)
            ready.append(stack.enter_context(staged(data_path)))
            data = _write_data(model, proto, ready[-1], data_path.name)
        else:
            _inline(model, proto)
        serialized = proto.SerializeToString(deterministic=True)
        ready.append(stack.enter_context(staged(path)))
        with ready[-1].open() as file:
            file.write(serialized)
        # Both files are complete: only a crash of the machine between the two steps can leave a mixture.
        for output in ready:
            output.publish()
    written = ModelFile(
        bytes=len(serialized),
        sha256=hashlib.sha256(serialized).hexdigest(),
        external_data=(data,) if data is not None and data.bytes else (),
    )
    total = written.bytes + (data.bytes if data is not None else 0)
    return SavedFiles(path, data_path, total, None if is_stream(path) else written)


def _write_data(model: Model, proto: onnx.ModelProto, output: Staged, location: str) -> DataFile:
    with output.open() as file, DataWriter(file) as writer:
        size = write_data(model, proto, writer, location)
    return DataFile(name=location, bytes=size, sha256=writer.sha256)


def inlined(model: Model) -> onnx.ModelProto | None:
    """Return a copy with computed pending tensors, or None if the model is too large to be saved in one file."""
    if _needs_data_file(model, ExternalData.AUTO, None):
        return None
    proto = copy_model(model.proto)
    _inline(model, proto)
    return proto


def _needs_data_file(model: Model, external_data: ExternalData, path: Path | None) -> bool:
    if path is not None and is_stream(path):
        if external_data is ExternalData.ALWAYS:
            raise UsageError(
                f"{path} is no file, so external data has no place beside it", hint="name a file: `-o OUT.onnx`"
            )
        external_data = ExternalData.NEVER
    if external_data is ExternalData.ALWAYS:
        return True
    stored = sum(nbytes(tensor) for tensor in iter_tensors(model.proto) if is_external(tensor))
    too_large = model.proto.ByteSize() + stored > INLINE_LIMIT
    if external_data is ExternalData.NEVER:
        if too_large:
            raise TooLargeError(
                "the model passes 2 GiB, which one ONNX file cannot hold", hint="allow external data beside it"
            )
        return False
    return too_large or model.stored_outside or any(map(stays_external, iter_tensors(model.proto)))


def _inline(model: Model, proto: onnx.ModelProto) -> None:
    for tensor in iter_tensors(proto):
        if is_external(tensor):
            set_inline(tensor, read_bytes(model, tensor))
