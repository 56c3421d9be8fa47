"""Read what the first bytes of an engine of TensorRT for RTX say, without CUDA.

The layout was learnt from engines that releases 1.4.0.76, 1.6.1.120 and 1.7.1.116 built, for each compute capability
alone and for several: these bytes changed with nothing else. All numbers are little-endian.

====== ==== =======
offset size content
====== ==== =======
0      4    ``vtrt``
8      4    2 in every engine
16     8    size of the file in bytes
24     4    version, a byte for each of its four numbers
28     4    ``vtrt``
32     4    compute capabilities, a bit for each
====== ==== =======

What the header holds besides was not understood, and is not read.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

_LAYOUT = struct.Struct("<4s4xI4xQ4B4sI")
_MARK = b"vtrt"
_KIND = 2
_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
"""By the number of their bit. A build without named targets also sets bit 6, whose meaning is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineHeader:
    """What an engine says of itself.

    Attributes:
        bytes: Size of the file.
        version: Version of TensorRT for RTX that built it.
        targets: Compute capabilities that it is for; ``bit 6`` for one whose bit is not known.
    """

    bytes: int
    version: str
    targets: tuple[str, ...]


def read_header(engine: Path) -> EngineHeader | None:
    """Return the header of an engine; None where the file does not begin as the known releases begin it.

    Raises:
        OSError: The file cannot be read.
    """
    with engine.open("rb") as file:
        data = file.read(_LAYOUT.size)
    if len(data) < _LAYOUT.size:
        return None
    first, kind, size, *version, second, bits = _LAYOUT.unpack(data)
    if (first, second, kind) != (_MARK, _MARK, _KIND):
        return None
    return EngineHeader(bytes=size, version=".".join(map(str, version)), targets=_targets(bits))


def _targets(bits: int) -> tuple[str, ...]:
    numbers = [number for number in range(bits.bit_length()) if bits >> number & 1]
    return tuple(_CAPABILITIES[n] if n < len(_CAPABILITIES) else f"bit {n}" for n in numbers)
