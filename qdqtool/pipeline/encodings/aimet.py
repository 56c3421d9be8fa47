"""AIMET's encodings: version 1.0.0 (lists) and the older ones (objects by name), as ``aimet_onnx`` exports them.

Both count codes from 0: ``real = (code + offset) * scale`` with code 0 to ``2**bits - 1``. What AIMET calls symmetric
is uint8 with offset -128, zero point 128: the same values as int8 with zero point 0, so its scale is taken as it is.
For any other offset the range is made symmetric, which a note says.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.pipeline.encodings._json import as_number, decode_object, top_level_keys
from qdqtool.pipeline.encodings._types import Encodings, tensor_range
from qdqtool.ranges import TensorRange

SECTIONS = ("activation_encodings", "param_encodings")
BITS = 8


class _Aimet:
    title = "AIMET encodings"
    can_write = False

    def recognizes(self, data: bytes) -> bool:
        keys = top_level_keys(data)
        return "activation_encodings" in keys or {"version", "encodings"} <= keys

    def read(self, data: bytes) -> Encodings:
        document = decode_object(data)
        if "encodings" in document:
            version = str(document.get("version"))[:20]
            raise UsageError(
                f"version {version} is not read; versions up to 1.0.0 are",
                hint="QuantizationSimModel.export(..., encoding_version='1.0.0')",
            )
        activations, constants = (_entries(document.get(section), section) for section in SECTIONS)
        symmetric = {each.name: each.range() for each in activations if each.is_int}
        return Encodings(symmetric, _scales(constants), tuple(_notes(activations, constants)))

    def write(self, ranges: Mapping[str, TensorRange]) -> bytes:
        del ranges
        raise UsageError("AIMET encodings are not written")


FORMAT = _Aimet()


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    is_int: bool
    bits: int
    scales: tuple[float, ...]
    offsets: tuple[float, ...]

    @property
    def is_centred(self) -> bool:
        return all(offset == -(2 ** (self.bits - 1)) for offset in self.offsets)

    def range(self) -> TensorRange:
        """What the codes of a tensor with one scale cover; of a symmetric one as far down as up."""
        if len(self.scales) != 1:
            raise UsageError(f"activation '{self.name}' has {len(self.scales)} scales; it must have one")
        scale, offset = self.scales[0], self.offsets[0]
        high = (offset + 2**self.bits - 1) * scale
        return tensor_range(self.name, -high if self.is_centred else offset * scale, high)


def _entries(section: Any, title: str) -> list[_Entry]:
    if isinstance(section, list):
        return [_entry_1_0(entry, title) for entry in section]
    if isinstance(section, dict):
        return [_legacy_entry(name, parts) for name, parts in section.items()]
    if section is None:
        return []
    raise UsageError(f"{title} is neither a list nor an object")


def _entry_1_0(entry: Any, title: str) -> _Entry:
    name = entry.get("name") if isinstance(entry, dict) else None
    if not isinstance(name, str):
        raise UsageError(f"{title} has an entry without a name")
    if entry.get("enc_type", "PER_TENSOR") not in {"PER_TENSOR", "PER_CHANNEL"}:
        raise UsageError(f"tensor '{name}' has enc_type {entry['enc_type']!r}; PER_TENSOR and PER_CHANNEL are read")
    if str(entry.get("dtype")).lower() != "int":
        return _Entry(name, False, 0, (), ())
    scales, offsets = (_numbers(name, entry.get(key), key) for key in ("scale", "offset"))
    return _made(name, entry.get("bw"), scales, offsets)


def _legacy_entry(name: str, parts: Any) -> _Entry:
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise UsageError(f"tensor '{name}' has no list of encodings", hint="export the ONNX encodings, not torch's")
    if any(str(part.get("dtype", "int")).lower() != "int" for part in parts):
        return _Entry(name, False, 0, (), ())
    scales, offsets = (_numbers(name, [part.get(key) for part in parts], key) for key in ("scale", "offset"))
    return _made(name, parts[0].get("bitwidth"), scales, offsets)


def _made(name: str, bits: Any, scales: tuple[float, ...], offsets: tuple[float, ...]) -> _Entry:
    if not isinstance(bits, int) or isinstance(bits, bool) or not 2 <= bits <= 32:
        raise UsageError(f"tensor '{name}' has bitwidth {str(bits)[:20]}; 2 to 32 is legal")
    if len(scales) != len(offsets):
        raise UsageError(f"tensor '{name}' has {len(scales)} scales and {len(offsets)} offsets")
    return _Entry(name, True, bits, scales, offsets)


def _numbers(name: str, values: Any, key: str) -> tuple[float, ...]:
    listed = [as_number(value) for value in (values if isinstance(values, list) else [values])]
    found = tuple(value for value in listed if value is not None)
    if not found or len(found) < len(listed):
        raise UsageError(f"tensor '{name}' has the {key} {str(values)[:80]}; it must be numbers")
    if not all(isfinite(value) for value in found) or (key == "scale" and min(found) <= 0):
        raise UsageError(f"tensor '{name}' has the {key} {str(values)[:80]}; it must be finite, a scale above 0")
    return found


def _scales(constants: list[_Entry]) -> dict[str, np.ndarray]:
    return {each.name: np.array(each.scales) for each in constants if each.is_int and _fits(each)}


def _fits(entry: _Entry) -> bool:
    return entry.bits == BITS and entry.is_centred


def _notes(activations: list[_Entry], constants: list[_Entry]) -> Iterator[str]:
    kinds: tuple[tuple[str, list[_Entry], Callable[[_Entry], bool]], ...] = (
        ("activations are float in the file: left in float", activations, lambda each: not each.is_int),
        ("activations are asymmetric in the file: their range was made symmetric", activations, _is_off_centre),
        ("activations do not have 8 bits in the file: their range is used", activations, _has_other_bits),
        ("constants are not symmetric 8-bit in the file: their scales come from their values", constants, _unfit),
    )
    for text, entries, applies in kinds:
        named = [each.name for each in entries if applies(each)]
        if named:
            yield f"{len(named)} {text}, such as '{named[0]}'"


def _is_off_centre(entry: _Entry) -> bool:
    return entry.is_int and not entry.is_centred


def _has_other_bits(entry: _Entry) -> bool:
    return entry.is_int and entry.bits != BITS


def _unfit(entry: _Entry) -> bool:
    return entry.is_int and not _fits(entry)
