"""Read a model file, with a specific message for everything that can be wrong with it."""

from __future__ import annotations

import mmap
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.external import check_external_data, missing_data
from qdqtool.models.graph.io.output import check_output
from qdqtool.models.graph.io.text import check_text
from qdqtool.models.graph.model import Model
from qdqtool.numerics.cores import LARGE

_PROBE = 4096
# protobuf does not parse messages of 2 GiB and more.
_PROTOBUF_LIMIT = 2**31 - 1


def load_model(path: str | Path, *, needs_data: bool = True) -> Model:
    """Read an ONNX model; external weights stay on disk, and must lie inside the model's folder.

    Args:
        path: The ``.onnx`` file.
        needs_data: Whether external data must be there; if not, ``missing_data`` of the result names what is not.

    Raises:
        ModelError: It is missing, a folder, not readable, no ONNX file (an LFS pointer, HTML, text), truncated, has
            names that are not UTF-8, or its external data is missing or outside its folder.
    """
    path = Path(path)
    data = _read_file(path)
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)  # type: ignore[arg-type]  # its stubs do not know that it takes memoryviews
    except DecodeError:
        _raise_for_content(path, bytes(data[:_PROBE]))
        raise ModelError(f"{path} is truncated or damaged: it does not decode as an ONNX model") from None
    # protobuf decodes many files that are not ONNX without an error: unknown fields are kept, and a text may parse as
    # fields.
    if not proto.HasField("graph") or not (proto.ir_version or proto.opset_import or proto.graph.node):
        _raise_for_content(path, bytes(data[:_PROBE]))
        raise ModelError(f"{path} is not an ONNX model: it decodes without a graph")
    _check_text(path, proto)
    missing = frozenset() if needs_data else missing_data(proto, path.parent)
    stored_outside = check_external_data(proto, path.parent, missing)
    return Model(proto, path, stored_outside=stored_outside, missing_data=missing)


def load_source(model: str | Path | Model, output: str | Path) -> Model:
    """Read the model of which a job makes another, unless it is in memory, and check that the other can be written.

    Args:
        model: The file, or the model.
        output: The file to write.
    """
    source = model if isinstance(model, Model) else load_model(model)
    check_output(Path(output), [source.path] if source.path else [])
    return source


def _check_text(path: Path, proto: onnx.ModelProto) -> None:
    try:
        check_text(proto)
    except ModelError as error:
        raise ModelError(f"{path}: {error.message}", hint=error.hint) from None


def _read_file(path: Path) -> memoryview:
    try:
        if path.is_dir():
            raise ModelError(f"{path} is a folder", hint="name the .onnx file in it")
        size = path.stat().st_size
        if size > _PROTOBUF_LIMIT:
            raise ModelError(
                f"{path} has {size} bytes; an ONNX file holds at most 2 GiB", hint="save it with external data"
            )
        data = _mapped(path) if size > LARGE else memoryview(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from None
    if not data:
        raise ModelError(f"{path} is empty")
    return data


def _mapped(path: Path) -> memoryview:
    """Map a large file: protobuf copies what it decodes, and the bytes of the file would be in memory beside it."""
    with path.open("rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        # Not every file system maps files.
        except OSError:
            return memoryview(file.read())


def _raise_for_content(path: Path, start: bytes) -> None:
    head = start.lstrip()
    if head.startswith(b"version https://git-lfs"):
        raise ModelError(
            f"{path} is a Git LFS pointer, not the model itself",
            hint="fetch the model, in its repository: `git lfs pull`",
        )
    if head[:64].lower().startswith((b"<!doctype html", b"<html", b"<?xml", b"<head")):
        raise ModelError(
            f"{path} is a web page saved as a model",
            hint="the download failed; open the link and fetch the file itself",
        )
    if _looks_like_text(start):
        raise ModelError(f"{path} is a text file, not an ONNX model")


def _looks_like_text(head: bytes) -> bool:
    try:
        text = head.decode()
    except UnicodeDecodeError:
        return False
    return all(char.isprintable() or char in "\r\n\t" for char in text)
