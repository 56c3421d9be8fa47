"""What a range file of another tool says, whichever tool wrote it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Protocol

import numpy as np
import numpy.typing as npt

from qdqtool.errors import UsageError
from qdqtool.ranges import TensorRange


@dataclass(frozen=True, slots=True, eq=False)
class Encodings:
    """Ranges by tensor name. Such files know nothing of scopes.

    Attributes:
        ranges: What the codes of an activation are to cover.
        scales: Scales of constants, float64: one number, or one for each channel.
        notes: What the file says and a symmetric 8-bit quantizer cannot do, in words.
    """

    ranges: Mapping[str, TensorRange]
    scales: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class EncodingFormat(Protocol):
    """One file format.

    Attributes:
        title: What users call it.
        can_write: Whether :meth:`write` does.
    """

    title: str
    can_write: bool

    def recognizes(self, data: bytes) -> bool:
        """Whether that is such a file, right or wrong, by how it begins and its keys."""
        ...

    def read(self, data: bytes) -> Encodings:
        """The ranges.

        Raises:
            UsageError: The file is malformed; the message says where, without naming the file.
        """
        ...

    def write(self, ranges: Mapping[str, TensorRange]) -> bytes:
        """A file with these ranges; the same ranges give the same bytes.

        Raises:
            UsageError: A name or a value cannot be written so.
        """
        ...


def tensor_range(name: str, low: float, high: float) -> TensorRange:
    """The range from ``low`` to ``high``.

    Raises:
        UsageError: An end is not finite, or they are in the wrong order.
    """
    if not (isfinite(low) and isfinite(high) and low <= high):
        raise UsageError(f"tensor '{name}' has the range {low:g} to {high:g}; both ends must be finite and in order")
    return TensorRange(low, high, max(abs(low), abs(high)), 1)


def symmetric_range(name: str, scale: float) -> TensorRange:
    """The range of 127 steps to both sides: dividing it by 127 again gives the same float32 scale.

    Raises:
        UsageError: The scale is negative or not finite.
    """
    if not isfinite(scale) or scale < 0:
        raise UsageError(f"tensor '{name}' has the scale {scale:g}; a scale must be finite and not negative")
    return tensor_range(name, -127.0 * scale, 127.0 * scale)
