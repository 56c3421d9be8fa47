"""Write a model completely or not at all: one weight at a time, with external data if the size requires it."""

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

import onnx

from qdqtool.errors import OutputError, UsageError
from qdqtool.models.graph.io.copying import copy_model
from qdqtool.models.graph.io.data_file import DataWriter, set_inline, set_location, stays_external, write_data
from qdqtool.models.graph.io.external import external_files
from qdqtool.models.graph.io.output import check_output, destination, is_stream, output_errors, staged, together
from qdqtool.models.graph.io.tensors import is_external, iter_tensors, nbytes, read_bytes
from qdqtool.models.graph.model import Model
from qdqtool.models.graph.report import DataFile, ModelFile
from qdqtool.models.options import ExternalData

INLINE_LIMIT = 2**31 - 2**26
"""A larger model gets external data: protobuf is limited to 2 GiB, and 64 MiB of that are headroom."""
_DIGITS = 16
"""Hexadecimal digits of the SHA-256 in the name of a data file."""


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

    The files are written as :mod:`qdqtool.models.graph.io.output` writes them, data first. External data goes to
    ``<path>.<digest>.data``, with the first 16 digits of its SHA-256. So a model always refers to its own data, even if
    the process is killed. Data of an earlier model of this name is removed. A stream gets the model with its weights
    inside. Bytes of untouched tensors are not decoded.

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
    data: DataFile | None = None
    with output_errors(path), together():
        if offload:
            data = _write_data(model, proto, path, sources)
        else:
            _inline(model, proto)
        serialized = proto.SerializeToString(deterministic=True)
        with staged(path) as output:
            with output.open() as file:
                file.write(serialized)
            output.publish(then_remove=_stale_data(path, data, sources))
    written = ModelFile(
        bytes=len(serialized),
        sha256=hashlib.sha256(serialized).hexdigest(),
        external_data=(data,) if data is not None and data.bytes else (),
    )
    total = written.bytes + (data.bytes if data is not None else 0)
    data_path = path.with_name(data.name) if data is not None else None
    return SavedFiles(path, data_path, total, None if is_stream(path) else written)


def _write_data(model: Model, proto: onnx.ModelProto, path: Path, sources: list[Path]) -> DataFile:
    if path.name.encode(errors="replace") != os.fsencode(path.name):
        hint = "choose another name for the output"
        raise OutputError(f"output {path} has a name that is no UTF-8; the model must name its data file", hint=hint)
    with staged(path) as output:
        with output.open() as file, DataWriter(file) as writer:
            size = write_data(model, proto, writer, path.name)
        name = f"{path.name}.{writer.sha256[:_DIGITS]}.data"
        for tensor in iter_tensors(proto):
            if is_external(tensor):
                set_location(tensor, name)
        target = path.with_name(name)
        check_output(target, sources)
        replace(output, destination=destination(target)).publish()
    return DataFile(name=name, bytes=size, sha256=writer.sha256)


def _stale_data(path: Path, data: DataFile | None, sources: list[Path]) -> list[Path]:
    """Return the data files of earlier models of this name, except the files that the model was read from."""
    if is_stream(path):
        return []
    pattern = re.compile(rf"{re.escape(path.name)}\.[0-9a-f]{{{_DIGITS}}}\.data")
    found = (each for each in path.parent.iterdir() if pattern.fullmatch(each.name))
    used = {each.resolve() for each in sources}
    return [each for each in found if (data is None or each.name != data.name) and each.resolve() not in used]


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
                f"{path} is not a regular file, so external data cannot be written beside it",
                hint="name a file: `-o OUT.onnx`",
            )
        external_data = ExternalData.NEVER
    if external_data is ExternalData.ALWAYS:
        return True
    stored = sum(nbytes(tensor) for tensor in iter_tensors(model.proto) if is_external(tensor))
    too_large = model.proto.ByteSize() + stored > INLINE_LIMIT
    if external_data is ExternalData.NEVER:
        if too_large:
            raise TooLargeError(
                "the model exceeds 2 GiB, the most that one ONNX file can hold", hint="allow external data beside it"
            )
        return False
    return too_large or model.stored_outside or any(map(stays_external, iter_tensors(model.proto)))


def _inline(model: Model, proto: onnx.ModelProto) -> None:
    for tensor in iter_tensors(proto):
        if is_external(tensor):
            set_inline(tensor, read_bytes(model, tensor))
