"""NumPy archives: one array for each tensor name, with the largest magnitude or ``[smallest, largest]``.

``numpy.savez("ranges.npz", **{"conv1_out": 6.0, "input": [-2.1, 2.6]})`` makes such a file. Values are written as
float64, so nothing is rounded.
"""

import io
import zipfile
from collections.abc import Mapping

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings._types import EncodingFormat, Encodings, tensor_range
from qdqtool.quantization.ranges.types import TensorRange
from qdqtool.samples.columns import DAMAGED_ARCHIVE, DAMAGED_ARRAY

MAX_ENTRY_BYTES = 1 << 12
"""Largest number of bytes of an entry that is read; an array of two numbers with its header is smaller."""
# The earliest date of the zip format. With the current time, equal ranges would give different bytes.
EPOCH = (1980, 1, 1, 0, 0, 0)


class _Npz(EncodingFormat):
    title = "npz of ranges"

    def recognizes(self, data: bytes) -> bool:
        return data.startswith(b"PK\x03\x04")

    def read(self, data: bytes) -> Encodings:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                ranges: dict[str, TensorRange] = {}
                for member in archive.infolist():
                    name = member.filename.removesuffix(".npy")
                    if name in ranges:
                        raise UsageError(f"holds array '{name}' twice")
                    ranges[name] = _read(archive, member)
                return Encodings(ranges)
        except DAMAGED_ARCHIVE as error:
            raise UsageError(f"is damaged: {error}") from None

    def write(self, ranges: Mapping[str, TensorRange]) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for name, found in ranges.items():
                entry = io.BytesIO()
                np.lib.format.write_array(entry, np.array([found.min, found.max]), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(f"{name}.npy", EPOCH), entry.getvalue())
        return buffer.getvalue()


FORMAT = _Npz()


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> TensorRange:
    name = member.filename.removesuffix(".npy")
    if member.file_size > MAX_ENTRY_BYTES:
        raise UsageError(f"array '{name}' is larger than one or two numbers")
    with archive.open(member) as file:
        content = io.BytesIO(file.read(MAX_ENTRY_BYTES))
    try:
        array = np.lib.format.read_array(content, allow_pickle=False)
    except DAMAGED_ARRAY as error:
        raise UsageError(f"array '{name}' cannot be read: {error}") from None
    if array.dtype.kind not in "fiu" or array.size not in (1, 2):
        raise UsageError(f"array '{name}' has {array.size} elements of {array.dtype}; it must be one or two numbers")
    values = [float(value) for value in array.ravel()]
    return tensor_range(name, -values[0], values[0]) if len(values) == 1 else tensor_range(name, *values)
