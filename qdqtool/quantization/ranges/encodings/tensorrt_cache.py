"""TensorRT's calibration cache: a text file with a first line ``TRT-...``, then ``name: 3c010a14`` for each tensor.

The eight hexadecimal digits are a big-endian float32: the scale of one int8 step, which is the largest magnitude / 127.
"""

import struct
from collections.abc import Iterator, Mapping

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings._types import EncodingFormat, Encodings, symmetric_range
from qdqtool.quantization.ranges.types import TensorRange

HEADER = "TRT-100300-EntropyCalibration2"
"""First line of written files: a TensorRT version and the name of its calibrator, whichever method qdqtool used."""


class _TensorRtCache(EncodingFormat):
    title = "TensorRT calibration cache"
    keeps_ends = False

    def recognizes(self, data: bytes) -> bool:
        return data.startswith(b"TRT-")

    def read(self, data: bytes) -> Encodings:
        try:
            lines = data.decode("utf-8").split("\n")
        except UnicodeDecodeError:
            raise UsageError("is not a text file") from None
        ranges: dict[str, TensorRange] = {}
        for name, scale in _entries(lines[1:]):
            if name in ranges:
                raise UsageError(f"names tensor '{name}' twice")
            ranges[name] = symmetric_range(name, scale)
        return Encodings(ranges)

    def write(self, ranges: Mapping[str, TensorRange]) -> bytes:
        return "".join([f"{HEADER}\n", *(_line(name, found) for name, found in ranges.items())]).encode()


FORMAT = _TensorRtCache()


def _entries(lines: list[str]) -> Iterator[tuple[str, float]]:
    for number, line in enumerate(lines, start=2):
        text = line.rstrip("\r")
        if not text.strip():
            continue
        name, colon, digits = text.rpartition(": ")
        try:
            (scale,) = struct.unpack(">f", bytes.fromhex(digits)) if len(digits) == 8 else (None,)
        except (ValueError, struct.error):  # fromhex skips spaces, so that eight characters may be fewer bytes
            scale = None
        if not colon or not name or scale is None:
            raise UsageError(f"line {number} is not 'name: ' and eight hexadecimal digits: {text[:80]!r}")
        yield name, scale


def _line(name: str, found: TensorRange) -> str:
    if "\n" in name or "\r" in name:
        raise UsageError(
            f"tensor {name!r} has a line break in its name, which a TensorRT calibration cache cannot hold"
        )
    with np.errstate(over="ignore"):
        scale = np.float32(found.amax / 127)
    if not np.isfinite(scale):
        raise UsageError(f"tensor '{name}' reaches {found.amax:g}: float32 cannot hold its scale")
    return f"{name}: {struct.pack('>f', scale).hex()}\n"
