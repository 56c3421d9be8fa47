"""Check external data: every byte that a model refers to must be in a regular file inside the model's folder.

The check runs before any other library opens the model. ONNX Runtime and onnx refuse a symbolic link that leaves the
folder, but TensorRT's parser follows it.
"""

import contextlib
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto

from qdqtool.errors import ModelError
from qdqtool.models.graph.io.tensors import external_entry, is_external, is_pending, iter_tensors, nbytes
from qdqtool.models.graph.model import Model
from qdqtool.numerics.cores import LARGE

_KEEP_TOGETHER = "keep the model and its data files in one folder, with relative locations"


def check_external_data(proto: onnx.ModelProto, folder: Path, missing: frozenset[str] = frozenset()) -> bool:
    """Check that all external tensors of a model in ``folder`` are inside the folder and complete.

    Returns:
        Whether the model has external tensors.
    """
    sizes: dict[str, int] = {}
    for tensor in iter_tensors(proto):
        if not is_external(tensor):
            continue
        location = external_entry(tensor, "location")
        if location in missing:
            continue
        if location not in sizes:
            sizes[location] = _contained_size(folder, location, tensor)
        _check_range(tensor, location, sizes[location])
    return bool(sizes or missing)


def missing_data(proto: onnx.ModelProto, folder: Path) -> frozenset[str]:
    """Return the locations of external tensors of a model in ``folder`` for which there is no file."""
    found: set[str] = set()
    for tensor in filter(is_external, iter_tensors(proto)):
        location = external_entry(tensor, "location")
        _check_location(location, tensor)
        if not (folder / location).exists():
            found.add(location)
    return frozenset(found)


def external_files(proto: onnx.ModelProto, folder: Path) -> list[Path]:
    """Return the files of the external tensors of a model in ``folder``, sorted."""
    stored = (tensor for tensor in iter_tensors(proto) if is_external(tensor) and not is_pending(tensor))
    locations = {external_entry(tensor, "location") for tensor in stored}
    return sorted(folder / location for location in locations)


def data_files(path: Path) -> list[Path]:
    """Return the external data files of a model file; an empty list for any other file, and for a large file."""
    proto = onnx.ModelProto()
    with contextlib.suppress(DecodeError, OSError):
        if path.suffix == ".onnx" and path.stat().st_size <= LARGE:
            proto.ParseFromString(path.read_bytes())
    return external_files(proto, path.parent)


def model_bytes(model: Model) -> int:
    """Return the total size in bytes of a model file and its external data files; 0 for a model made in memory.

    Missing data is not counted.
    """
    if model.path is None:
        return 0
    missing = {model.folder / location for location in model.missing_data}
    files = (path for path in external_files(model.proto, model.folder) if path not in missing)
    return sum(path.stat().st_size for path in (model.path, *files))


def _contained_size(folder: Path, location: str, tensor: TensorProto) -> int:
    _check_location(location, tensor)
    path = folder / location
    try:
        resolved = path.resolve(strict=True)
        size = resolved.stat().st_size
    except (OSError, RuntimeError, ValueError):
        raise ModelError(
            f"external data '{location}' of tensor '{tensor.name}' is missing from {folder}", hint=_KEEP_TOGETHER
        ) from None
    if not resolved.is_relative_to(folder.resolve()):
        raise ModelError(
            f"external data '{location}' of tensor '{tensor.name}' is a link to a file outside the model's folder",
            hint="copy the data file into the model's folder",
        )
    if not resolved.is_file():
        raise ModelError(f"external data '{location}' of tensor '{tensor.name}' is not a regular file")
    return size


def _check_location(location: str, tensor: TensorProto) -> None:
    # Both separators are checked on every system: a model that is checked on Linux may be used on Windows, where C:x
    # and \\host are absolute.
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    absolute = posix.is_absolute() or windows.is_absolute() or bool(windows.drive) or location.startswith("\\")
    if not location or "\0" in location or absolute or ".." in posix.parts or ".." in windows.parts:
        raise ModelError(
            f"external data location '{location}' of tensor '{tensor.name}' is not a path inside the model's folder",
            hint=_KEEP_TOGETHER,
        )


def _check_range(tensor: TensorProto, location: str, size: int) -> None:
    offset, length = _number(tensor, "offset"), _number(tensor, "length")
    needed = nbytes(tensor)
    if any(dim < 0 for dim in tensor.dims) or (length is not None and length != needed):
        raise ModelError(
            f"external tensor '{tensor.name}' of shape {list(tensor.dims)} needs {needed} bytes, "
            f"but its entry says {length}"
        )
    end = (offset or 0) + needed
    if end > size:
        raise ModelError(
            f"external data '{location}' is too short: tensor '{tensor.name}' ends at byte {end}, the file has {size}",
            hint="the file is truncated or belongs to another model; fetch it again",
        )


def _number(tensor: TensorProto, key: str) -> int | None:
    text = external_entry(tensor, key)
    if not text:
        return None
    # isdigit alone accepts digits of other scripts and superscripts, for which int() fails. Python refuses to convert
    # very long numbers.
    if not (text.isascii() and text.isdigit()) or len(text) > len(str(sys.maxsize)):
        raise ModelError(f"external tensor '{tensor.name}' has {key} '{text}'; it must be a number of bytes")
    return int(text)
