"""AIMET's encodings, as ``aimet_onnx`` 2.42 and earlier export them.

* 0.6.1: an object of tensor names, with one encoding for each channel;
* 1.0.0: lists of activations and of constants; block scales are listed by output channel, without axes;
* 2.0.0: one list of tensors, biases included, with the names of ONNX's QuantizeLinear: ``output_dtype``, ``y_scale``,
  ``y_zero_point``, ``axis``, ``block_size``.

The first two count codes from 0: ``real = (code + offset) * scale``. With 8 bits, AIMET's symmetric encodings have the
offset -128, or -127 if strict. These are the values of int8 with zero point 0, so the scale is used directly. With any
other offset the range is made symmetric, with a remark.

Block scales of LPBQ are products: one float for each channel times one integer for each block.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.encodings._aimet_entry import (
    FLOAT,
    SCALED_FLOATS,
    AimetEntry,
    Numbers,
    float_entry,
    integer_entry,
    read_bits,
    read_numbers,
    read_size,
)
from qdqtool.quantization.ranges.encodings._types import (
    ConstantScales,
    EncodingFormat,
    Encodings,
    decode_object,
    top_level_keys,
)

KINDS = frozenset({"PER_TENSOR", "PER_CHANNEL", "PER_BLOCK", "LPBQ"})
INTEGER = re.compile(r"(u?)int(\d{1,2})", re.ASCII)


class _Aimet(EncodingFormat):
    title = "AIMET encodings"
    can_write = False

    def recognizes(self, data: bytes) -> bool:
        keys = top_level_keys(data)
        return bool(keys & {"activation_encodings", "param_encodings"}) or {"version", "encodings"} <= keys

    def read(self, data: bytes) -> Encodings:
        document = decode_object(data)
        if "encodings" in document:
            return _read_2_0(document)
        activations, constants = (
            _entries(document.get(section), section) for section in ("activation_encodings", "param_encodings")
        )
        for entry in activations:
            if entry.scales.size > 1:
                raise UsageError(f"activation '{entry.name}' has {entry.scales.size} scales; it must have one")
        return _encodings(activations, constants)


FORMAT = _Aimet()


def _read_2_0(document: dict[str, Any]) -> Encodings:
    """Read a file that does not distinguish activations from constants; only the model shows the difference."""
    version = str(document.get("version"))[:20]
    if not version.startswith("2."):
        raise UsageError(
            f"version {version} is not read; 0.6.1, 1.0.0 and 2.0.0 are",
            hint="QuantizationSimModel.export(..., encoding_version='2.0.0')",
        )
    if not isinstance(document["encodings"], list):
        raise UsageError("encodings is no list")
    entries = _each_once(document["encodings"], "encodings", _entry_2_0)
    return _encodings(entries, entries)


def _encodings(activations: list[AimetEntry], constants: list[AimetEntry]) -> Encodings:
    scales: dict[str, ConstantScales] = {}
    for entry in constants:
        found = entry.constant()
        if found is not None:
            scales[entry.name] = found
    remarks = ((entry.name, entry.remark()) for entry in activations if entry.kind == FLOAT or entry.is_per_tensor)
    return Encodings(
        ranges={entry.name: entry.range() for entry in activations if entry.is_per_tensor},
        constants=scales,
        formats={entry.name: entry.format for entry in [*activations, *constants]},
        remarks={name: remark for name, remark in remarks if remark is not None},
    )


def _entries(section: Any, title: str) -> list[AimetEntry]:
    if isinstance(section, list):
        return _each_once(section, title, _entry_1_0)
    if isinstance(section, dict):
        return [_entry_0_6(name, parts) for name, parts in section.items()]
    if section is None:
        return []
    raise UsageError(f"{title} is neither a list nor an object")


def _each_once(
    section: Iterable[Any], title: str, read: Callable[[str, dict[str, Any]], AimetEntry]
) -> list[AimetEntry]:
    found: dict[str, AimetEntry] = {}
    for entry in section:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"{title} has an entry without a name")
        if name in found:
            raise UsageError(f"{title} names tensor '{name}' twice")
        found[name] = read(name, entry)
    return list(found.values())


def _entry_0_6(name: str, parts: Any) -> AimetEntry:
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        raise UsageError(f"tensor '{name}' has no list of encodings", hint="export the ONNX encodings, not torch's")
    if any(str(part.get("dtype", "int")).lower() != "int" for part in parts):
        return float_entry(name)
    scales, offsets = (read_numbers(name, [part.get(key) for part in parts], key) for key in ("scale", "offset"))
    return integer_entry(name, read_bits(name, parts[0].get("bitwidth")), scales, offsets)


def _entry_1_0(name: str, entry: dict[str, Any]) -> AimetEntry:
    kind = entry.get("enc_type", "PER_TENSOR")
    if kind not in KINDS:
        raise UsageError(f"tensor '{name}' has enc_type {str(kind)[:20]!r}; {', '.join(sorted(KINDS))} are read")
    if str(entry.get("dtype")).lower() != "int":
        return float_entry(name)
    scales, offsets = (read_numbers(name, entry.get(key), key) for key in ("scale", "offset"))
    bits, block_size = read_bits(name, entry.get("bw")), read_size(name, entry.get("block_size"), "block_size", 1)
    if kind == "LPBQ":
        bits = read_bits(name, entry.get("compressed_bw"))
        scales = _by_block(name, scales, entry.get("per_block_int_scale"))
        offsets = np.full(scales.shape, -float(2 ** (bits - 1)))
    elif "zero_point_shift" in entry:
        offsets = offsets + _shaped(name, entry["zero_point_shift"], "zero_point_shift", offsets.shape)
    return integer_entry(name, bits, scales, offsets, block_size=block_size)


def _by_block(name: str, by_channel: Numbers, steps: Any) -> Numbers:
    """Return scales of LPBQ in version 1.0.0, ordered by output channel and then by block."""
    found = read_numbers(name, steps, "per_block_int_scale")
    if by_channel.ndim != 1 or found.size % by_channel.size:
        raise UsageError(f"tensor '{name}' has {by_channel.size} scales of channels and {found.size} of blocks")
    return _product(name, by_channel[:, np.newaxis], found.reshape(by_channel.size, -1)).reshape(-1)


def _product(name: str, by_channel: Numbers, by_block: Numbers) -> Numbers:
    with np.errstate(over="ignore", under="ignore"):
        found = by_channel * by_block
    if not np.isfinite(found).all() or found.min() <= 0:
        raise UsageError(
            f"tensor '{name}' has block scales from {found.min():g} to {found.max():g}; they must be finite"
        )
    return found


def _entry_2_0(name: str, entry: dict[str, Any]) -> AimetEntry:
    dtype = str(entry.get("output_dtype"))
    integer = INTEGER.fullmatch(dtype)
    if integer is None and dtype not in SCALED_FLOATS:
        if "float" in dtype:
            return float_entry(name)
        raise UsageError(f"tensor '{name}' has the output_dtype {dtype[:20]!r}; integers and floats are read")
    axis, block_size = entry.get("axis"), read_size(name, entry.get("block_size"), "block_size", 1)
    if axis is not None and (not isinstance(axis, int) or isinstance(axis, bool)):
        raise UsageError(f"tensor '{name}' has the axis {str(axis)[:20]}; it must be a whole number")
    scales = _scales_2_0(name, entry)
    if integer is None:
        return AimetEntry(name, dtype, 0, scales, np.zeros(0), axis, block_size)
    bits = read_bits(name, int(integer[2]))
    zero_points = _shaped(name, entry.get("y_zero_point"), "y_zero_point", scales.shape)
    lowest = 0.0 if integer[1] else -float(2 ** (bits - 1))
    return integer_entry(name, bits, scales, lowest - zero_points, axis, block_size)


def _scales_2_0(name: str, entry: dict[str, Any]) -> Numbers:
    if "per_block_int_scale" not in entry:
        return read_numbers(name, entry.get("y_scale"), "y_scale")
    by_channel, by_block = (
        read_numbers(name, entry.get(key), key) for key in ("per_channel_float_scale", "per_block_int_scale")
    )
    whole, parts = by_block.shape, by_channel.shape
    if len(parts) != len(whole) or any(part not in (1, extent) for part, extent in zip(parts, whole, strict=True)):
        raise UsageError(
            f"tensor '{name}' has scales of channels in shape {list(parts)} and of blocks in {list(whole)}"
        )
    return _product(name, by_channel, by_block)


def _shaped(name: str, value: Any, key: str, shape: tuple[int, ...]) -> Numbers:
    """Return numbers in the shape of the scales; zeros if the entry has none."""
    if value is None:
        return np.zeros(shape)
    found = read_numbers(name, value, key)
    if found.size not in (1, int(np.prod(shape))):
        raise UsageError(f"tensor '{name}' has {found.size} numbers as {key}; it has {int(np.prod(shape))} scales")
    return np.broadcast_to(found.reshape(shape) if found.size > 1 else found.reshape(()), shape)
