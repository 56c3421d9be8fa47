"""The content of a range file of another tool, in one form for all tools, and the JSON of those files."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, ClassVar, NoReturn

import msgspec
import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError
from qdqtool.quantization.ranges.types import TensorRange

# The opening brace must be within this many bytes; leading white space of any length is legal JSON.
MAX_PEEK = 1 << 16
MAX_ODD_BYTES = 1 << 24
"""Largest nonstandard JSON (with NaN) that is read: only Python's slow reader accepts it."""
MAX_RANK = 8
"""Largest rank of an array of numbers; weights with scales have fewer dimensions."""


def top_level_keys(data: bytes) -> frozenset[str]:
    """Return the keys of a JSON object; empty for anything else."""
    return frozenset(_peek(data, msgspec.Raw))


def peek_values(data: bytes) -> list[Any]:
    """Return the values of a JSON object, to recognize its format; empty for anything else."""
    return list(_peek(data, Any).values())


def _peek(data: bytes, of: Any) -> dict[str, Any]:
    """Decode a JSON object, even with NaN as Python writes it; return an empty dict for anything else."""
    if not data[:MAX_PEEK].lstrip().startswith(b"{"):
        return {}
    try:
        return msgspec.json.decode(data, type=dict[str, of])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        found = json.loads(data) if len(data) <= MAX_ODD_BYTES else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decode_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object in which no name occurs twice.

    Raises:
        UsageError: The data is not such an object.
    """
    try:
        found = json.loads(data, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise UsageError("is not valid JSON: it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UsageError("is not valid JSON: it is no object")
    return found


def as_number(value: Any) -> float | None:
    """Convert a JSON number to float64, infinity if it is too large; None for anything else."""
    # bool is a subclass of int in Python. A JSON integer has any length, and float() raises OverflowError beyond 1e308.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def as_array(value: Any) -> npt.NDArray[np.float64] | None:
    """Convert a JSON number, or nested lists of numbers with equal lengths, to float64; None for anything else."""
    try:
        found = np.asarray(value)
    except (ValueError, RecursionError):
        return None
    if found.dtype.kind not in "iuf" or not found.size or found.ndim > MAX_RANK:
        return None
    return found.astype(np.float64)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise UsageError(f"has the name {twice[:80]!r} twice in one object")
    return found


def _no_constant(text: str) -> NoReturn:
    raise UsageError(f"holds {text}, which is not a JSON number")


@dataclass(frozen=True, slots=True, eq=False)
class ConstantScales:
    """Scales of one constant.

    Attributes:
        format: Name of the number format of the codes.
        values: float64, finite and above 0: one element for the whole tensor, else one for each channel. With blocks,
            an array with the rank of the tensor, or a list ordered by output channel and then by block.
        axis: Axis of the channels or blocks; None if the file does not state it.
        block_size: Elements in a block; None without blocks.
        problem: Why no symmetric quantizer can use them, as text that continues the tensor's name; empty if one can.
    """

    format: str
    values: npt.NDArray[np.float64]
    axis: int | None = None
    block_size: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Encodings:
    """Ranges by tensor name; such files do not know scopes.

    Attributes:
        ranges: The range that the codes of a tensor cover. Constants are included if the file does not distinguish them
            from activations.
        constants: Scales of tensors that are, or may be, constants.
        formats: Names of the number formats of tensors in the file, ``float`` for tensors that stay float; empty if the
            file format has int8 only.
        remarks: By tensor: statements about activations that a symmetric 8-bit quantizer cannot follow.
    """

    ranges: Mapping[str, TensorRange]
    constants: Mapping[str, ConstantScales] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All tensor names in the file, without repetition."""
        return tuple(dict.fromkeys([*self.ranges, *self.constants, *self.formats]))

    def remarks_of(self, names: Iterable[str]) -> Iterator[str]:
        """Yield the remarks on some tensors as sentences, each once."""
        by_text: dict[str, list[str]] = {}
        for name in names:
            if name in self.remarks:
                by_text.setdefault(self.remarks[name], []).append(name)
        for text, tensors in by_text.items():
            count = "1 activation" if len(tensors) == 1 else f"{len(tensors)} activations"
            yield f"{count} {text}, such as '{tensors[0]}'"


class EncodingFormat(ABC):
    """One file format.

    Attributes:
        title: The name of the format for users.
        can_write: Whether :meth:`write` can write files.
        keeps_ends: Whether a file has the smallest and the largest value, instead of one magnitude.
    """

    title: ClassVar[str]
    can_write: ClassVar[bool] = True
    keeps_ends: ClassVar[bool] = True

    @abstractmethod
    def recognizes(self, data: bytes) -> bool:
        """Return whether the beginning and the keys of the data are of this format; the file may be malformed."""

    @abstractmethod
    def read(self, data: bytes) -> Encodings:
        """Return the ranges of a file."""

    def write(self, ranges: Mapping[str, TensorRange]) -> bytes:
        """Return a file with these ranges; equal ranges give equal bytes."""
        del ranges
        raise UsageError(f"{self.title} are not written")


def tensor_range(name: str, low: float, high: float) -> TensorRange:
    """Return the range from ``low`` to ``high``.

    Raises:
        UsageError: An end is not finite, or the ends are in the wrong order.
    """
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise UsageError(f"tensor '{name}' has the range {low:g} to {high:g}; both ends must be finite and in order")
    return TensorRange(low, high, max(abs(low), abs(high)), 1)


def symmetric_range(name: str, scale: float) -> TensorRange:
    """Return the range from -127 to 127 steps; dividing its end by 127 gives exactly the same float32 scale.

    Raises:
        UsageError: The scale is negative or not finite.
    """
    if not isfinite(scale) or scale < 0:
        raise UsageError(f"tensor '{name}' has the scale {scale:g}; a scale must be finite and not negative")
    return tensor_range(name, -127.0 * scale, 127.0 * scale)
