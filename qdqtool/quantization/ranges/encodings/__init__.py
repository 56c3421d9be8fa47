"""Recognize, read and (in most formats) write range files of other tools; each module has one format.

The file name, with ``-`` for ``_``, is the public id; ``FORMAT`` is the value.
"""

import functools
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges import encodings as _package
from qdqtool.quantization.ranges.encodings._types import ConstantScales as ConstantScales
from qdqtool.quantization.ranges.encodings._types import EncodingFormat as EncodingFormat
from qdqtool.quantization.ranges.encodings._types import Encodings as Encodings
from qdqtool.quantization.ranges.encodings._types import decode_object
from qdqtool.quantization.ranges.encodings._types import symmetric_range as symmetric_range
from qdqtool.quantization.ranges.encodings._types import tensor_range as tensor_range
from qdqtool.quantization.ranges.file import MAX_RANGES_BYTES
from qdqtool.quantization.ranges.types import TensorRange
from qdqtool.registry import load_unit, unit_names

BOM = b"\xef\xbb\xbf"
"""The byte order mark, which some editors write at the start of UTF-8 text."""
MAX_NAME = 1 << 12
MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class ReadEncodings:
    """A file that was read."""

    format: str
    found: Encodings


def names() -> tuple[str, ...]:
    """Return the public ids of all formats, sorted."""
    return tuple(name.replace("_", "-") for name in unit_names(_package))


def writable() -> tuple[str, ...]:
    """Return the formats that can be written."""
    return tuple(name for name in names() if _get(name).can_write)


def keeps_ends(name: str) -> bool:
    """Return whether files of a format have the smallest and the largest value, instead of one magnitude."""
    return _get(name).keeps_ends


def recognize(path: Path) -> str | None:
    """Return the format id of a file, recognized by its content; None for any other file."""
    return _recognize(_read(path))


def read_encodings(path: Path) -> ReadEncodings:
    """Read a range file of another tool strictly.

    Raises:
        UsageError: The file cannot be read, its format is unknown, or it is malformed.
    """
    data = _read(path)
    found = _recognize(data)
    if found is None:
        raise _unknown(path, data)
    try:
        encodings = _get(found).read(data)
        _check_names(encodings)
    except UsageError as error:
        message = error.message if len(error.message) <= MAX_MESSAGE else f"{error.message[:MAX_MESSAGE]}…"
        raise UsageError(f"{_get(found).title} {path}: {message}", hint=error.hint) from None
    return ReadEncodings(found, encodings)


def encode(ranges: Mapping[str, TensorRange], name: str) -> bytes:
    """Return ranges as a file of the format ``name``, which is one of :func:`writable`."""
    return _get(name).write(ranges)


def _unknown(path: Path, data: bytes) -> UsageError:
    """Return the error for a file of an unknown format."""
    titles = ", ".join(_get(name).title for name in names())
    if data.lstrip()[:1] == b"{":
        try:
            keys = decode_object(data).keys()
        except UsageError as error:
            return UsageError(f"{path} {error.message}")
        if {"schema_version", "tensors"} <= keys:
            command = f"qdqtool quantize MODEL --calibration-cache {shlex.quote(str(path))} -o OUT.onnx"
            return UsageError(
                f"{path} was written by `qdqtool calibrate`, and its ranges fit only the model that qdqtool prepared",
                hint=f"quantize with it: `{command}`",
            )
    return UsageError(f"{path} is not a known ranges file; known are: {titles}")


def _check_names(encodings: Encodings) -> None:
    longest = max(encodings.names, key=len, default="")
    if len(longest) > MAX_NAME:
        raise UsageError(f"names a tensor with {len(longest)} characters, which no model has")


@functools.cache
def _get(name: str) -> EncodingFormat:
    found: EncodingFormat = load_unit(_package, name.replace("-", "_")).FORMAT
    return found


def _recognize(data: bytes) -> str | None:
    return next((name for name in names() if _get(name).recognizes(data)), None)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_size > MAX_RANGES_BYTES:
            raise UsageError(f"{path} is larger than {MAX_RANGES_BYTES >> 20} MiB")
        return path.read_bytes().removeprefix(BOM)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
